"""From a family's name to a loaded model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from stoker.core.errors import CheckpointError
from stoker.core.model import ModelConfig
from stoker.kernels.ops import Ops, Tensors
from stoker.kernels.packing import CheckpointTensors
from stoker.layers.block import Block
from stoker.models import gemma3, llama, qwen
from stoker.models.model import Model
from stoker.models.parts import Parts, Progress
from stoker.weights.contract import Checkpoint

BuildBlock = Callable[[Parts, int], Block]

FAMILIES: Mapping[str, BuildBlock] = MappingProxyType(
    {
        "llama": llama.build_block,
        "mistral": llama.build_block,
        "qwen2": qwen.build_qwen2_block,
        "qwen3": qwen.build_qwen3_block,
        "gemma3": gemma3.build_block,
    }
)
"""`ModelConfig.family` → what builds one of its blocks."""


def build_model(
    config: ModelConfig,
    checkpoint: Checkpoint,
    ops: Ops,
    progress: Progress,
    *,
    tensors: Tensors | None = None,
    max_positions: int | None = None,
    threads: int = 4,
) -> Model:
    """Load every tensor of a checkpoint into the layout of a kernel set.

    tensors: where they come from, if not straight from the checkpoint.
    max_positions: longest sequence the model will see, tokens; default: what the config allows.
    threads: how many layers are read and packed at once; each holds one unpacked tensor.
    progress: may be called from these threads, see `parts.Progress`.

    Raises:
        CheckpointError: the family is unknown, or a tensor is missing or contradicts the config.
    """
    build_block = FAMILIES.get(config.family)
    if build_block is None:
        raise CheckpointError(
            f"the model family is {config.family}, but Stoker runs {', '.join(sorted(FAMILIES))}"
        )
    tensors = tensors or CheckpointTensors(checkpoint, ops)
    positions = max_positions or config.max_position_embeddings
    parts = Parts(config, checkpoint, ops, tensors, positions, progress)
    with ThreadPoolExecutor(threads, thread_name_prefix="load") as pool:
        # The ends of the model are its largest tensors: they start first.
        ends = pool.submit(parts.embedding_and_head)
        blocks = [pool.submit(build_block, parts, layer) for layer in range(config.num_layers)]
        try:
            embedding, head = ends.result()
            built = tuple(block.result() for block in blocks)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Model(embedding, built, parts.norm("model.norm"), head)
