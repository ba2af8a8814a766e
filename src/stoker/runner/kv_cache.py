"""The page pool's memory and how layers see it. Who owns which page is `memory`'s business."""

from __future__ import annotations

from stoker.core.model import PAGE_SIZE, KVLayout
from stoker.kernels.ops import LayerKV, Ops


class KVCache:
    """Storage for `num_pages` pages of `layout`, viewed per layer.

    Every group uses the same pages: layer i of a group lives in slot i of each page it owns.
    """

    def __init__(self, ops: Ops, layout: KVLayout, num_pages: int) -> None:
        heads, dim = layout.num_kv_heads, layout.head_dim
        slots = (num_pages, layout.layers_per_page, 2, heads)  # of each slot: K, then V
        values = layout.layers_per_page * 2 * heads * dim * PAGE_SIZE
        pool = ops.new_kv_pool(num_pages, values, layout.dtype)
        k, v = pool.reshape((*slots, dim, PAGE_SIZE)), pool.reshape((*slots, PAGE_SIZE, dim))
        views: dict[int, LayerKV] = {}
        self.group_of: dict[int, int] = {}
        """Layer → index of its KV group."""
        for index, group in enumerate(layout.groups):
            for slot, layer in enumerate(group.layers):
                views[layer] = LayerKV(k[:, slot, 0], v[:, slot, 1])
                self.group_of[layer] = index
        self.layers = tuple(views[layer] for layer in range(len(views)))
        """Per layer of the model: its keys and values in every page."""
