"""How far the native set may be from the reference set: one table for all tests.

A kernel that rounds differently changes a line here, and says so in its message.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tests.support.kernels import FLOAT_KINDS, INT_KINDS


@dataclass(frozen=True)
class LinearBound:
    """What moves the outputs of x @ w.T: rounded activations, and float32 sums in another order."""

    rounding: float
    """Most that an activation may be moved, as a share of the largest in its group of 32."""
    sums: float
    """Most that an output may be moved by float32 sums, as a share of the sum of |x w|."""
    norm: float
    """Norm of the error over the norm of the result, for normally distributed x and weights of
    about one size: what a model sees."""


EXACT_ACTIVATIONS = LinearBound(rounding=0.0, sums=2e-6, norm=2e-6)
INT8_ACTIVATIONS = LinearBound(rounding=1 / 254, sums=2e-6, norm=0.008)
"""255 levels from -max to max of the group: half a level is max / 254."""

LINEAR = dict.fromkeys(FLOAT_KINDS, EXACT_ACTIVATIONS) | dict.fromkeys(INT_KINDS, INT8_ACTIVATIONS)

RMS_NORM = 1e-6
"""Relative, each number: the scale of its row is off by the rounding of a float32 sum."""
GLU = 2e-6
"""As a share of the largest |gate * up|: gelu's 1 + tanh cancels, and exp is within 2 ulp."""
ROPE = 0.0
ATTENTION = 1e-5
"""Absolute, for values of size 1: float32 sums in another order."""
ATTENTION_IN_BF16 = 1e-2
"""The same, of `avx512` over bf16 pages, which rounds queries and weights to 2^-9."""
ATTENTION_IN_BF16_NORM = 3e-3
"""Norm of the error over the norm of the result."""
LOGPROBS = 1e-6


def linear_slack(kind: str, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Most that each number of x [M, K] @ weight.T may be off, for a dense weight [N, K]."""
    bound, size = LINEAR[kind], weight.abs().T.double()
    slack = bound.sums * (x.abs().double() @ size)
    if bound.rounding:
        peaks = x.view(len(x), -1, 32).abs().amax(-1).repeat_interleave(32, dim=1)
        slack += bound.rounding * (1 + 1e-5) * (peaks.double() @ size)
    return slack + 1e-30  # a row of zeros is exactly zero, but < says it more plainly than <=


def assert_linear(
    kind: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, got: torch.Tensor
) -> None:
    """Hold `got` to x @ weight.T + bias, computed in float64 from dense float32 weights [N, K]."""
    wanted = x.double() @ weight.T.double()
    slack = linear_slack(kind, x, weight)
    if bias is not None:
        wanted += bias
        slack += LINEAR[kind].sums * (wanted.abs() + bias.abs())
    error = (got.double() - wanted).abs()
    assert (error <= slack).all(), f"{kind}: {float((error / slack).max()):.2f} times the bound"


def assert_attention(got: torch.Tensor, wanted: torch.Tensor, dtype: str, isa: str) -> None:
    """Hold attention over pages of `dtype` to the reference's."""
    in_bf16 = (isa, dtype) == ("avx512", "bf16")
    atol = ATTENTION_IN_BF16 if in_bf16 else ATTENTION
    torch.testing.assert_close(got, wanted, rtol=0, atol=atol)
    if in_bf16:
        assert norm_error(got, wanted) <= ATTENTION_IN_BF16_NORM


def norm_error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got - wanted).double().norm() / wanted.double().norm())
