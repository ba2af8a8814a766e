"""RoPE settings of config.json in both forms that transformers has written.

Up to version 4: `rope_theta` and, where scaled, `rope_scaling`. From version 5: `rope_parameters`
with the base inside, and one such object per kind of layer for models with windowed layers.
"""

from __future__ import annotations

from stoker.core.errors import CheckpointError
from stoker.core.model import RopeConfig
from stoker.weights.fields import Fields

SUPPORTED = ("default", "linear", "llama3")


def global_rope(config: Fields, default_theta: float) -> RopeConfig:
    """RoPE of full-attention layers."""
    theta = config.number("rope_theta", default_theta)
    scaling = config.section("rope_parameters")
    if scaling is None:
        scaling = config.section("rope_scaling")
    else:
        scaling = scaling.section("full_attention") or scaling
    return RopeConfig(theta=theta) if scaling is None else _rope(scaling, theta)


def local_rope(config: Fields, default_theta: float) -> RopeConfig:
    """RoPE of windowed layers where a model has its own for them (Gemma 3); never scaled in v4."""
    theta = config.number("rope_local_base_freq", default_theta)
    parameters = config.section("rope_parameters")
    scaling = parameters and parameters.section("sliding_attention")
    return _rope(scaling, theta) if scaling else RopeConfig(theta=theta)


def _rope(scaling: Fields, theta: float) -> RopeConfig:
    theta = scaling.number("rope_theta", theta)
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    if scaling.raw("partial_rotary_factor") not in (None, 1, 1.0):
        raise CheckpointError(f"{scaling.where}: partial_rotary_factor is not supported")
    if kind == "default":
        return RopeConfig(theta=theta)
    if kind == "linear":
        return RopeConfig(theta=theta, scaling="linear", factor=scaling.number("factor"))
    if kind == "llama3":
        return RopeConfig(
            theta=theta,
            scaling="llama3",
            factor=scaling.number("factor"),
            low_freq_factor=scaling.number("low_freq_factor"),
            high_freq_factor=scaling.number("high_freq_factor"),
            original_max_position=scaling.integer("original_max_position_embeddings"),
        )
    raise CheckpointError(
        f"{scaling.where}: RoPE scaling {kind!r} is not supported; known are {', '.join(SUPPORTED)}"
    )
