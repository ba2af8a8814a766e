"""Every GGUF type gives exactly the numbers that the `gguf` package gives."""

import numpy as np
import pytest
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind

from stoker.weights.formats import FloatWeight, Int4Weight, Int8Weight
from stoker.weights.gguf_blocks import INT4, INT8
from stoker.weights.gguf_quants import bytes_per_weight, convert, smallest_float
from tests.support.checkpoints import dequantised

KEPT = {
    Kind.Q4_0: (Int4Weight, np.float16, 32),
    Kind.Q4_1: (Int4Weight, np.float16, 32),
    Kind.Q4_K: (Int4Weight, np.float32, 32),
    Kind.Q8_0: (Int8Weight, np.float16, 32),
    Kind.Q5_0: (Int8Weight, np.float16, 32),
    Kind.Q5_1: (Int8Weight, np.float16, 32),
    Kind.IQ4_NL: (Int8Weight, np.float16, 32),
    Kind.IQ4_XS: (Int8Weight, np.float32, 32),
    Kind.Q5_K: (Int8Weight, np.float32, 32),
    Kind.Q2_K: (Int8Weight, np.float32, 16),
    Kind.Q3_K: (Int8Weight, np.float32, 16),
    Kind.Q6_K: (Int8Weight, np.float32, 16),
}
DEQUANTISED = (
    Kind.TQ1_0,
    Kind.TQ2_0,
    Kind.MXFP4,
    Kind.NVFP4,
    Kind.IQ1_S,
    Kind.IQ1_M,
    Kind.IQ2_XXS,
    Kind.IQ2_XS,
    Kind.IQ2_S,
    Kind.IQ3_XXS,
    Kind.IQ3_S,
)
HALVES = {
    Kind.Q2_K: (80, 82),
    Kind.Q3_K: (108,),
    Kind.Q4_K: (0, 2),
    Kind.Q5_K: (0, 2),
    Kind.Q6_K: (208,),
    Kind.IQ4_XS: (0,),
    Kind.IQ4_NL: (0,),
    Kind.Q4_0: (0,),
    Kind.Q4_1: (0, 2),
    Kind.Q5_0: (0,),
    Kind.Q5_1: (0, 2),
    Kind.Q8_0: (0,),
    Kind.TQ1_0: (52,),
    Kind.TQ2_0: (64,),
    Kind.IQ1_S: (0,),
    Kind.IQ2_XXS: (0,),
    Kind.IQ2_XS: (0,),
    Kind.IQ2_S: (0,),
    Kind.IQ3_XXS: (0,),
    Kind.IQ3_S: (0,),
}
"""Where the float16 fields of a block begin: random bits there would often be infinite or NaN."""


def random_rows(kind: Kind, rows: int = 7, columns: int = 768) -> np.ndarray:
    """Blocks of random bits with random finite float16 scales, some zero, some negative."""
    block, size = GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(kind.value)
    blocks = random.integers(0, 256, (rows * columns // block, size), np.uint8)
    if kind is Kind.MXFP4:
        blocks[:, 0] %= 200  # a power of two that float32 can hold
    for at in HALVES.get(kind, ()):
        scale = random.standard_normal(len(blocks)).astype(np.float16)
        scale[::5] = 0
        blocks[:, at : at + 2] = scale.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.name)
def test_integers_are_kept_and_values_are_exact(kind):
    rows = random_rows(kind)
    weight = convert(rows, kind)
    form, scale_dtype, group = KEPT[kind]
    assert isinstance(weight, form)
    assert weight.shape == (7, 768)
    assert weight.scale.shape == (7, 768 // group)
    assert weight.scale.dtype == scale_dtype
    assert getattr(weight, "group", 32) == group
    np.testing.assert_array_equal(dequantised(weight), quants.dequantize(rows, kind))


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_what_the_package_quantised_reads_back(kind):
    kind = Kind[kind]
    values = np.random.default_rng(1).standard_normal((5, 192)).astype(np.float32)
    rows = quants.quantize(values, kind)
    np.testing.assert_array_equal(dequantised(convert(rows, kind)), quants.dequantize(rows, kind))


@pytest.mark.parametrize("kind", DEQUANTISED, ids=lambda kind: kind.name)
def test_other_types_are_dequantised_without_loss(kind):
    rows = random_rows(kind)
    weight = convert(rows, kind)
    assert isinstance(weight, FloatWeight)
    np.testing.assert_array_equal(dequantised(weight), quants.dequantize(rows, kind))


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.name)
def test_any_range_of_rows_converts_alone(kind):
    rows = random_rows(kind, rows=1200, columns=512)
    whole = dequantised(convert(rows, kind))
    np.testing.assert_array_equal(dequantised(convert(rows[333:777], kind)), whole[333:777])


def test_q4_0_has_no_minimum_to_read():
    rows = random_rows(Kind.Q4_0)
    weight = convert(rows, Kind.Q4_0)
    assert weight.minimum is None and weight.nbytes == rows.nbytes


def test_float_types_are_views():
    values = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    for kind, format_ in ((Kind.F32, "f32"), (Kind.F16, "f16"), (Kind.BF16, "bf16")):
        rows = quants.quantize(values, kind).view(np.uint8)
        weight = convert(rows, kind)
        assert weight.format == format_
        assert np.shares_memory(weight.data, rows)
        np.testing.assert_array_equal(dequantised(weight), quants.dequantize(rows, kind))


@pytest.mark.parametrize(
    ("values", "format_"),
    [([1.5, -0.25, 65504], "f16"), ([1.5, 2.0**100], "bf16"), ([0.1, 2.0], "f32"), ([1e6], "f32")],
)
def test_smallest_exact_float(values, format_):
    values = np.array([values], np.float32)
    weight = smallest_float(values)
    assert weight.format == format_
    np.testing.assert_array_equal(dequantised(weight), values)


def test_a_type_the_package_cannot_read_is_refused():
    with pytest.raises(NotImplementedError):
        convert(random_rows(Kind.Q8_K), Kind.Q8_K)


@pytest.mark.parametrize(
    "kind", [*INT4, *INT8, Kind.F32, Kind.F16, Kind.BF16], ids=lambda k: k.name
)
def test_the_foreseen_size_is_the_real_one(kind: Kind) -> None:
    per_block, stored = GGML_QUANT_SIZES[kind]
    blocks = 512 // per_block
    rows = np.zeros((3, blocks * stored), np.uint8)
    assert convert(rows, kind).nbytes == 3 * 512 * bytes_per_weight(kind)
