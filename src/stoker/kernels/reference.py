"""Every op in plain PyTorch: the specification that other kernel sets are tested against.

Float32 throughout, weights dequantised when packed. Written to be read, not to be fast; it must not
know of models, batches or any other kernel set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from stoker.core.config import KernelName
from stoker.core.model import PAGE_SIZE, Activation, KVDtype
from stoker.kernels.ops import Draw, Ints, LayerKV, PackedWeight, Rows
from stoker.weights.formats import FloatWeight, Int4Weight, Weight

Array = torch.Tensor

_KV_TORCH: dict[KVDtype, torch.dtype] = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """A packed weight of this kernel set: float32 [N, K]."""

    data: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.shape[0], self.data.shape[1]

    @property
    def nbytes(self) -> int:
        return self.data.numel() * 4


class ReferenceOps:
    """The kernel set `reference`; see `kernels.ops.Ops` for the contract of each method.

    threads: of PyTorch, for the whole process; None leaves them as they are.
    """

    name: KernelName = "reference"

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)

    def pack(self, weight: Weight) -> DenseWeight:
        return DenseWeight(torch.from_numpy(dequantize(weight)))

    def vector(self, weight: Weight) -> Array:
        return torch.from_numpy(dequantize(weight))

    def array(self, values: NDArray[np.float32]) -> Array:
        return torch.from_numpy(values)

    def numpy(self, array: Array) -> NDArray[np.float32]:
        return array.numpy()

    def embed(self, token_ids: Ints, table: PackedWeight, scale: float) -> Array:
        return _dense(table)[_index(token_ids)] * scale

    def linear(self, x: Array, weight: PackedWeight, bias: Array | None = None) -> Array:
        return torch.nn.functional.linear(x, _dense(weight), bias)

    def rms_norm(self, x: Array, weight: Array, eps: float) -> Array:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight

    def rope_and_store(
        self, q: Array, k: Array, v: Array, cos_sin: Array, rows: Rows, kv: LayerKV
    ) -> Array:
        positions = _index(rows.positions)
        page = _index(rows.page_table)[_index(rows.row_seq), positions // PAGE_SIZE]
        slot = positions % PAGE_SIZE
        turn = cos_sin[positions].unsqueeze(1)  # [T, 1, head_dim]: the same for every head
        kv.k[page, :, :, slot] = _rotate(k, turn).to(kv.k.dtype)
        kv.v[page, :, slot, :] = v.to(kv.v.dtype)
        return _rotate(q, turn)

    def attention(
        self, q: Array, rows: Rows, kv: LayerKV, scale: float, window: int | None
    ) -> Array:
        out = torch.empty(q.shape[0], q.shape[1] * q.shape[2])
        positions, page_table = _index(rows.positions), _index(rows.page_table)
        for seq in np.unique(rows.row_seq):
            mine = torch.from_numpy(rows.row_seq == seq)
            out[mine] = _attend(q[mine], positions[mine], page_table[seq], kv, scale, window)
        return out

    def glu(self, gate: Array, up: Array, activation: Activation) -> Array:
        if activation == "silu":
            return torch.nn.functional.silu(gate) * up
        return torch.nn.functional.gelu(gate, approximate="tanh") * up

    def add(self, x: Array, y: Array) -> Array:
        return x + y

    def rows(self, x: Array, index: Ints) -> Array:
        return x[_index(index)]

    def sample(self, logits: Array, draws: list[Draw]) -> list[int]:
        return [_draw(row.numpy(), draw) for row, draw in zip(logits, draws, strict=True)]

    def logprobs(
        self, logits: Array, tokens: Ints, k: int
    ) -> tuple[NDArray[np.float32], Ints, NDArray[np.float32]]:
        logp = torch.log_softmax(logits.double(), dim=-1).float()
        picked = logp.gather(1, _index(tokens).unsqueeze(1)).squeeze(1)
        # A stable sort of the logits themselves keeps equal ones in order of their ids.
        order = torch.sort(logits, dim=-1, descending=True, stable=True).indices[:, :k]
        return picked.numpy(), order.int().numpy(), logp.gather(1, order).numpy()

    def new_kv_pool(self, num_pages: int, page_values: int, dtype: KVDtype) -> Array:
        # NumPy's zeros are untouched memory of the system, which commits a page when it is written.
        kind = _KV_TORCH[dtype]
        raw = np.zeros(num_pages * page_values * kind.itemsize, dtype=np.uint8)
        return torch.from_numpy(raw).view(kind).view(num_pages, page_values)


def dequantize(weight: Weight) -> NDArray[np.float32]:
    """The numbers that a weight stands for: a new float32 array of the weight's shape."""
    if isinstance(weight, FloatWeight):
        if weight.format == "bf16":
            return (weight.data.astype(np.uint32) << 16).view(np.float32)
        return np.array(weight.data, dtype=np.float32)
    if isinstance(weight, Int4Weight):
        rows, half = weight.q.shape
        packed = weight.q.reshape(rows, half // 16, 16)
        q = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32)
        return _affine(q if weight.minimum is not None else q - 8, weight.scale, weight.minimum)
    rows, columns = weight.q.shape
    q = weight.q.reshape(rows, columns // weight.group, weight.group).astype(np.float32)
    return _affine(q, weight.scale, weight.minimum)


def _affine(
    q: NDArray[np.float32],
    scale: NDArray[np.floating],
    minimum: NDArray[np.floating] | None,
) -> NDArray[np.float32]:
    """scale * q + minimum for q [N, groups, columns of a group] → [N, K]."""
    value = q * scale.astype(np.float32)[..., None]
    if minimum is not None:
        value += minimum.astype(np.float32)[..., None]
    return value.reshape(q.shape[0], -1)


def _index(numbers: Ints) -> Array:
    """What a step says about itself, as PyTorch indexes with it."""
    return torch.from_numpy(numbers).long()


def _dense(weight: PackedWeight) -> Array:
    if not isinstance(weight, DenseWeight):
        raise TypeError(f"a weight packed by the reference set is needed, got {type(weight)}")
    return weight.data


def _rotate(x: Array, turn: Array) -> Array:
    """Half-split rotation: x [T, heads, D], turn [T, 1, D] with cosines, then sines."""
    x1, x2 = x.chunk(2, dim=-1)
    cos, sin = turn.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def _attend(
    q: Array, positions: Array, page_row: Array, kv: LayerKV, scale: float, window: int | None
) -> Array:
    """Attention of one sequence's rows: q [t, heads, D], positions [t] → [t, heads * D].

    Reads exactly the positions first..last that some row needs: what lies before or behind them in
    the same pages may be the leftovers of another sequence.
    """
    last = int(positions.max())
    first = 0 if window is None else max(0, int(positions.min()) - window + 1)
    pages = page_row[first // PAGE_SIZE : last // PAGE_SIZE + 1]
    skip, count = first % PAGE_SIZE, last - first + 1
    # [pages, kv_heads, D, 16] and [pages, kv_heads, 16, D] → [kv_heads, keys, D]
    keys = kv.k[pages].permute(1, 0, 3, 2).flatten(1, 2)[:, skip : skip + count].float()
    values = kv.v[pages].permute(1, 0, 2, 3).flatten(1, 2)[:, skip : skip + count].float()

    rows, heads, dim = q.shape
    kv_heads = keys.shape[0]
    grouped = q.view(rows, kv_heads, heads // kv_heads, dim)
    scores = torch.einsum("tgrd,gsd->grts", grouped, keys) * scale
    distance = positions[:, None] - torch.arange(first, last + 1)[None, :]
    visible = distance >= 0
    if window is not None:
        visible &= distance < window
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
    return torch.einsum("grts,gsd->tgrd", weights, values).reshape(rows, heads * dim)


def _draw(logits: NDArray[np.float32], draw: Draw) -> int:
    if np.isnan(logits).any() or not np.isfinite(logits.max()):
        return -1
    return sample_row(
        logits,
        temperature=draw.temperature,
        top_p=draw.top_p,
        min_p=draw.min_p,
        top_k=draw.top_k,
        u=uniform(draw.seed, draw.choice, draw.position),
    )


def sample_row(
    logits: NDArray[np.float32],
    *,
    temperature: float,
    top_p: float,
    min_p: float,
    top_k: int,
    u: float,
) -> int:
    """Draw one token id; every step is defined to the bit.

    y = (logit - the largest) * log2(e) / temperature in float32, and `token_masses` of it: whole
    numbers, so that their sums are exact.

    1. min_p: keep y >= max(-40, log2(min_p)), so that no mass is 0.
    2. top_k > 0: keep the first top_k in falling order of logit, equal logits in order of id.
    3. top_p < 1: in falling order of logit again, keep the shortest run whose mass is >= top_p *
       (the mass of all that are left), rounded up.
    4. Add up the masses of the kept in order of id; draw the first whose sum is > u * (the last).
    """
    if temperature == 0.0:
        return int(logits.argmax())  # the first of equal ones
    limits = np.finfo(np.float32)
    rate = np.float32(np.clip(math.log2(math.e) / temperature, limits.tiny, limits.max))
    with np.errstate(over="ignore"):
        y = (logits - logits.max()) * rate
    mass = token_masses(y)
    order = np.argsort(-logits, kind="stable")
    order = order[y[order] >= np.float32(max(-40.0, math.log2(max(min_p, 1e-30))))]
    if top_k > 0:
        order = order[:top_k]
    if top_p < 1.0:
        sums = np.cumsum(mass[order])
        need = math.ceil(top_p * float(sums[-1]))
        order = order[: int(np.searchsorted(sums, need, side="left")) + 1]
    kept = np.sort(order)
    sums = np.cumsum(mass[kept])
    target = int(u * 2**53) * int(sums[-1]) >> 53
    return int(kept[np.searchsorted(sums, target, side="right")])


def token_masses(y: NDArray[np.float32]) -> NDArray[np.int64]:
    """2^(40 + y) to the nearest whole number, for -40 <= y <= 0; smaller y count as -40.

    2^y in float32, each step rounded once: n = y to the nearest whole number, the polynomial of
    degree 5 that is least wrong for 2^f, f = y - n, by Horner's rule, times 2^n.
    """
    y = np.maximum(y, np.float32(-40.0))
    n = np.rint(y)
    p = np.full_like(y, _EXP2[0])
    for coefficient in _EXP2[1:]:
        p = p * (y - n) + coefficient
    weight = np.ldexp(p, n.astype(np.int32))
    return np.rint(weight.astype(np.float64) * 2.0**40).astype(np.int64)


_EXP2 = [
    np.float32(float.fromhex(coefficient))
    for coefficient in (
        "0x1.5bba14p-10",
        "0x1.3cea88p-7",
        "0x1.c6b752p-5",
        "0x1.ebf9bcp-3",
        "0x1.62e42ap-1",
        "0x1p0",
    )
]


def uniform(seed: int, choice: int, position: int) -> float:
    """The random number in [0, 1) that belongs to (seed, choice, position).

    The first two words of Philox as ((word1 << 32 | word0) >> 11) / 2**53.
    """
    counter = (position & 0xFFFFFFFF, (position >> 32) & 0xFFFFFFFF, choice & 0xFFFFFFFF, 0)
    word0, word1, _, _ = philox4x32(counter, (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))
    return ((word1 << 32 | word0) >> 11) * 2.0**-53


def philox4x32(
    counter: tuple[int, int, int, int], key: tuple[int, int], rounds: int = 10
) -> tuple[int, int, int, int]:
    """Philox4x32 (Salmon et al. 2011): four counter words and two key words → four random words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        product0, product1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (
            (product1 >> 32) ^ c1 ^ k0,
            product1 & 0xFFFFFFFF,
            (product0 >> 32) ^ c3 ^ k1,
            product0 & 0xFFFFFFFF,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3
