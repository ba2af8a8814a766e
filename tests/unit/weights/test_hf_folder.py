"""Folders as transformers writes them: every family, dtype and layout, and what can be wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from stoker.core.errors import CheckpointError
from stoker.weights.checkpoint import open_checkpoint
from stoker.weights.hf_folder import INDEX, open_folder
from stoker.weights.shapes import expected_shape
from tests.support.checkpoints import FAMILIES, dequantised, make_tiny


@pytest.fixture
def llama(tmp_path):
    make_tiny("llama", tmp_path / "tiny-llama")
    return tmp_path / "tiny-llama"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_of_every_family(family, tmp_path):
    make_tiny(family, tmp_path)
    checkpoint = open_folder(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert checkpoint.names() == sorted(stored)
    for name, tensor in stored.items():
        expected = tensor.numpy()
        if family == "gemma3" and name.endswith("norm.weight"):
            expected = 1 + expected
        assert expected_shape(checkpoint.config, name) == expected.shape
        np.testing.assert_array_equal(checkpoint.weight(name).data, expected)
    assert checkpoint.nbytes == sum(t.numel() * 4 for t in stored.values())


def test_facts(llama):
    checkpoint = open_checkpoint(str(llama))
    assert checkpoint.name == "tiny-llama"
    assert checkpoint.tokenizer.folder == llama
    assert checkpoint.generation.eos_token_ids == (3,)


@pytest.mark.parametrize(("dtype", "format_"), [("bfloat16", "bf16"), ("float16", "f16")])
def test_half_formats_are_views(tmp_path, dtype, format_):
    make_tiny("gemma3", tmp_path, dtype=dtype)
    checkpoint = open_folder(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    weight = checkpoint.weight(name)
    assert weight.format == format_
    assert not weight.data.flags.owndata
    np.testing.assert_array_equal(dequantised(weight), stored[name].float().numpy())
    norm = checkpoint.weight("model.norm.weight")
    assert norm.format == "f32"
    np.testing.assert_array_equal(norm.data, 1 + stored["model.norm.weight"].float().numpy())


def test_sharded_equals_whole(tmp_path):
    make_tiny("qwen2", tmp_path / "one")
    make_tiny("qwen2", tmp_path / "many", max_shard_size="200KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    one, many = open_folder(tmp_path / "one"), open_folder(tmp_path / "many")
    assert one.names() == many.names()
    for name in one.names():
        np.testing.assert_array_equal(one.weight(name).data, many.weight(name).data)


def test_revision_is_of_the_content(tmp_path):
    make_tiny("llama", tmp_path / "a")
    make_tiny("llama", tmp_path / "b")
    make_tiny("llama", tmp_path / "c", seed=1)
    a, b, c = (open_folder(tmp_path / x).revision for x in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize("prefix", ["language_model.", "model.language_model."])
def test_text_part_of_a_multimodal_folder(tmp_path, prefix):
    make_tiny("gemma3", tmp_path)
    whole = load_file(tmp_path / "model.safetensors")
    nested = {
        prefix + (name if prefix == "language_model." else name.removeprefix("model.")): tensor
        for name, tensor in whole.items()
    }
    nested["vision_tower.vision_model.embeddings.weight"] = torch.zeros(3)
    save_file(nested, tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    wrapped = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": config}
    (tmp_path / "config.json").write_text(json.dumps(wrapped))
    assert open_folder(tmp_path).names() == sorted(whole)


def test_tied_head_is_left_out(tmp_path):
    make_tiny("llama-tied", tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    stored["lm_head.weight"] = stored["model.embed_tokens.weight"].clone()
    stored["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(8)
    save_file(stored, tmp_path / "model.safetensors")
    names = open_folder(tmp_path).names()
    assert "lm_head.weight" not in names
    assert not any("rotary" in name for name in names)


def test_the_tokenizers_end_token_counts(llama):
    settings = {
        "eos_token": {"content": "<|eot|>"},
        "added_tokens_decoder": {"9": {"content": "<|eot|>"}, "8": {"content": "x"}},
    }
    (llama / "tokenizer_config.json").write_text(json.dumps(settings))
    assert open_folder(llama).generation.eos_token_ids == (3, 9)


def test_wrong_shape_shows_both(llama):
    checkpoint = open_folder(llama)
    other = replace(checkpoint, config=replace(checkpoint.config, num_kv_heads=4))
    with pytest.raises(CheckpointError, match=r"k_proj\.weight has shape \[32, 64\].*\[64, 64\]"):
        other.weight("model.layers.0.self_attn.k_proj.weight")


def test_missing_tensor_is_named(llama):
    with pytest.raises(CheckpointError, match=r"model\.layers\.7\.x\.weight is missing"):
        open_folder(llama).weight("model.layers.7.x.weight")


def test_other_dtypes_are_named(llama):
    stored = load_file(llama / "model.safetensors")
    stored["model.norm.weight"] = stored["model.norm.weight"].double()
    save_file(stored, llama / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight is stored as F64"):
        open_folder(llama).weight("model.norm.weight")


def remove(name):
    return lambda folder: (folder / name).unlink()


def write(name, text):
    return lambda folder: (folder / name).write_text(text)


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("config.json"), "has no config.json"),
        (remove("model.safetensors"), "has no weights"),
        (write("config.json", "{"), "not readable JSON"),
        (write("config.json", "[]"), "not a JSON object"),
        (
            write("model.safetensors", "hello, this is no tensor"),
            "truncated or not a safetensors file",
        ),
        (write("model.safetensors", ""), "truncated or not a safetensors file"),
        (cut, "truncated or not a safetensors file"),
        (write(INDEX, "{}"), "weight_map is missing"),
        (write(INDEX, '{"weight_map": {"a": "gone.safetensors"}}'), "gone.safetensors is missing"),
        (write(INDEX, '{"weight_map": {"a": "../x.safetensors"}}'), "is missing"),
    ],
)
def test_damaged_folders(llama, damage, message):
    damage(llama)
    with pytest.raises(CheckpointError, match=message) as caught:
        open_folder(llama)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
def test_json_nested_without_end_is_refused(name, llama):
    (llama / name).write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=f"{name} is not readable JSON"):
        open_folder(llama)
