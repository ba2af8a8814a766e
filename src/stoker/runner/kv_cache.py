"""The page pool's memory and how layers see it. Who owns which page is `memory`'s business."""

from __future__ import annotations

from stoker.core.model import PAGE_SIZE, KVLayout
from stoker.kernels.ops import Array, LayerKV, Ops


class KVCache:
    """Storage for `num_pages` pages of `layout`, viewed per layer.

    Every group uses the same pages: layer i of a group lives in slot i of each page it owns.
    """

    def __init__(self, ops: Ops, layout: KVLayout, num_pages: int) -> None:
        half = layout.num_kv_heads * layout.head_dim * PAGE_SIZE  # values of K, and of V, in a slot
        pool = ops.new_kv_pool(num_pages, layout.layers_per_page * 2 * half, layout.dtype)
        slots = pool.view(num_pages, layout.layers_per_page, 2, half)
        heads, dim = layout.num_kv_heads, layout.head_dim
        views: dict[int, LayerKV] = {}
        self.group_of: dict[int, int] = {}
        """Layer → index of its KV group."""
        for index, group in enumerate(layout.groups):
            for slot, layer in enumerate(group.layers):
                k: Array = slots[:, slot, 0].unflatten(-1, (heads, dim, PAGE_SIZE))
                v: Array = slots[:, slot, 1].unflatten(-1, (heads, PAGE_SIZE, dim))
                views[layer] = LayerKV(k, v)
                self.group_of[layer] = index
        self.layers = tuple(views[layer] for layer in range(len(views)))
        """Per layer of the model: its keys and values in every page."""
