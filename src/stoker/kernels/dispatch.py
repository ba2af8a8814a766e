"""The one place that turns the name of a kernel set into the set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stoker.core.config import KernelName
from stoker.kernels.ops import Ops

if TYPE_CHECKING:
    from stoker.kernels.cpu import CpuOps


def get_ops(
    name: KernelName, threads: int, isa: str | None = None, cpus: Sequence[int] = ()
) -> Ops:
    """The kernel set `name`, working with `threads` threads.

    isa: instruction set of the native kernels, "vnni", "avx2" or "portable"; None takes this CPU's
    best. cpus: a logical CPU for each native thread to be bound to; empty binds none.
    The reference set knows no instruction sets, and its threads are PyTorch's: set for the process.

    Raises:
        ValueError: the CPU has no such instruction set, or the name is unknown.
    """
    # Imported here, so that the reference set works where the extension was not built.
    if name == "reference":
        from stoker.kernels.reference import ReferenceOps

        return ReferenceOps(threads)
    if name == "cpu":
        from stoker.kernels.cpu import CpuOps

        return CpuOps(threads, isa, cpus)
    raise ValueError(f"kernels is {name}, but must be cpu or reference")


def recordable(ops: Ops) -> CpuOps | None:
    """`ops` itself where its calls can be recorded and replayed (`kernels.record`), else None."""
    if ops.name != "cpu":
        return None
    from stoker.kernels.cpu import CpuOps

    return ops if isinstance(ops, CpuOps) else None
