"""What a step hands to a model and a model to its layers; nothing here remembers a step."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.kernels.ops import Ints, LayerKV, Rows


@dataclass(frozen=True, slots=True)
class LayerStep:
    """One layer's view of a step: where the rows are, and the layer's share of all pages.

    Layers of one KV group share the same `rows` object.
    """

    rows: Rows
    kv: LayerKV


@dataclass(frozen=True, slots=True)
class StepInputs:
    """A step as arrays. token_ids: int32 [T]; layers: one entry per layer of the model."""

    token_ids: Ints
    layers: tuple[LayerStep, ...]
