from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from stoker.core.errors import CheckpointError
from stoker.text.pieces import byte_alphabet
from stoker.text.tokenizer import Tokenizer, load_tokenizer
from stoker.weights.contract import HubTokenizer


def _byte_level_backend() -> tokenizers.Tokenizer:
    vocab = byte_alphabet()
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    return backend


def _load(folder: Path, backend: tokenizers.Tokenizer, config: dict[str, Any] | None) -> Tokenizer:
    backend.save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return load_tokenizer(HubTokenizer(folder))


def test_special_tokens_come_by_name_as_text_or_as_object(tmp_path: Path) -> None:
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "special": True}}
    tokenizer = _load(tmp_path, _byte_level_backend(), config)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.vocab_size) == (256, 257, 258)
    assert tokenizer.special_ids == {256, 257}
    assert tokenizer.token_bytes(0xC3) == b"\xc3"


@pytest.mark.parametrize(
    ("said", "post_processor", "expected"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
def test_config_or_else_post_processor_decides_on_bos(
    tmp_path: Path, said: bool | None, post_processor: bool, expected: bool
) -> None:
    backend = _byte_level_backend()
    if post_processor:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 256)]
        )
    config: dict[str, Any] = {"bos_token": "<s>"}
    if said is not None:
        config["add_bos_token"] = said
    tokenizer = _load(tmp_path, backend, config)
    assert tokenizer.encode("x", add_special_tokens=True) == [256] * expected + [ord("x")]
    assert tokenizer.encode("x", add_special_tokens=False) == [ord("x")]


def test_sentencepiece_style_decoding_is_recognised(tmp_path: Path) -> None:
    vocab = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"▁": 256, "a": 257}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
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
    tokenizer = _load(tmp_path, backend, None)
    ids = tokenizer.encode("a é a", add_special_tokens=True)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a é a"
    assert tokenizer.decode(ids, skip_special_tokens=True) == backend.decode(ids)


def test_truncation_and_padding_in_the_file_are_ignored(tmp_path: Path) -> None:
    backend = _byte_level_backend()
    backend.enable_truncation(2)
    backend.enable_padding(length=4)
    tokenizer = _load(tmp_path, backend, None)
    assert tokenizer.encode("abc", add_special_tokens=True) == [97, 98, 99]


def test_chat_template_from_config_list_or_file(tmp_path: Path) -> None:
    backend = _byte_level_backend()
    assert _load(tmp_path, backend, None).chat_template is None
    assert _load(tmp_path, backend, {"chat_template": "one"}).chat_template == "one"
    named = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    assert _load(tmp_path, backend, {"chat_template": named}).chat_template == "d"
    (tmp_path / "chat_template.jinja").write_text("file")
    assert _load(tmp_path, backend, {"chat_template": named}).chat_template == "file"


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no tokenizer\.json"):
        load_tokenizer(HubTokenizer(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        load_tokenizer(HubTokenizer(tmp_path))
    _byte_level_backend().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text("[1]")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json must hold"):
        load_tokenizer(HubTokenizer(tmp_path))


def test_a_decoder_that_is_not_known_is_refused(tmp_path: Path) -> None:
    backend = _byte_level_backend()
    backend.decoder = decoders.WordPiece()
    with pytest.raises(CheckpointError, match="WordPiece"):
        _load(tmp_path, backend, None)


@pytest.mark.parametrize("entries", [[1], [None], [{"name": "default"}], [{"name": []}]])
def test_a_list_that_holds_no_templates_is_refused(tmp_path: Path, entries: list[Any]) -> None:
    with pytest.raises(CheckpointError, match="chat_template is neither"):
        _load(tmp_path, _byte_level_backend(), {"chat_template": entries})


def test_a_template_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match="jinja cannot be read"):
        _load(tmp_path, _byte_level_backend(), None)
