"""Tokenizers and chat templates of Hugging Face folders against transformers itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

from stoker.text.chat_template import ChatTemplate
from stoker.text.tokenizer import Tokenizer, load_tokenizer
from stoker.weights.contract import HubTokenizer
from tests.data.tokenizer_texts import WRITTEN, generated

TEMPLATE = """
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- generation %}
{{ message.content | trim }}{{ eos_token }}
        {%- endgeneration %}
    {%- else %}
        {{- '<|' + message.role + '|>\\n' + message.content + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if tools %}{{ tools | tojson(indent=2) }}{% endif %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\\n' }}
{%- endif %}
"""
MESSAGES = [
    {"role": "system", "content": "Be brief. {{ not evaluated }}"},
    {"role": "user", "content": "Grüße 🔥 <b>&amp;</b>"},
    {"role": "assistant", "content": " Hello\n"},
    {"role": "user", "content": "Again"},
]
SPECIAL = ["<unk>", "<s>", "</s>", "<|user|>"]


def _byte_level() -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(WRITTEN, trainer)
    return backend


def _sentencepiece() -> Backend:
    backend = Backend(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=SPECIAL, limit_alphabet=120, show_progress=False
    )
    backend.train_from_iterator(WRITTEN, trainer)
    state = json.loads(backend.to_str())
    vocab = state["model"]["vocab"]
    vocab.update({piece: len(vocab) + i for i, piece in enumerate(bytes_)})
    return Backend.from_str(json.dumps(state))


@pytest.fixture(scope="module", params=[_byte_level, _sentencepiece])
def pair(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[Any, Tokenizer]:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    request.param().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    reference = AutoTokenizer.from_pretrained(folder)
    return reference, load_tokenizer(HubTokenizer(folder))


def test_ids_and_texts_are_equal(pair: tuple[Any, Tokenizer]) -> None:
    reference, tokenizer = pair
    for text in [*WRITTEN, *generated(300, seed=11)]:
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert ids == reference.encode(text, add_special_tokens=False)
        for skip in (True, False):
            ours = tokenizer.decode(ids, skip_special_tokens=skip)
            assert ours == reference.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": {"name": "ä"}}]])
def test_rendered_prompts_are_equal(pair: tuple[Any, Tokenizer], tools: Any) -> None:
    reference, tokenizer = pair
    assert tokenizer.chat_template is not None
    template = ChatTemplate(tokenizer.chat_template, tokenizer)
    expected = reference.apply_chat_template(
        MESSAGES, tools=tools, tokenize=False, add_generation_prompt=True
    )
    assert template.render(MESSAGES, tools=tools) == expected
    ids = reference.encode(expected, add_special_tokens=False)
    assert template.render_to_ids(MESSAGES, tools=tools) == ids
