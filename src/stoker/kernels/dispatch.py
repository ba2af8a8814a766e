"""The one place that turns the name of a kernel set into the set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stoker.core.config import IsaName, KernelName
from stoker.core.errors import ConfigError
from stoker.kernels.ops import Ops

if TYPE_CHECKING:
    from stoker.kernels.cpu import CpuOps


def get_ops(name: KernelName, threads: int, isa: IsaName = "auto", cpus: Sequence[int] = ()) -> Ops:
    """The kernel set `name`, working with `threads` threads.

    isa: instruction set of the native kernels; auto takes this CPU's best. cpus: a logical CPU for
    each native thread to be bound to; empty binds none.
    The reference set knows no instruction sets, and its threads are PyTorch's: set for the process.

    Raises:
        ConfigError: the CPU has no such instruction set.
        ValueError: the name is unknown.
    """
    # Imported here, so that the reference set works where the extension was not built.
    if name == "reference":
        from stoker.kernels.reference import ReferenceOps

        return ReferenceOps(threads)
    if name == "cpu":
        from stoker.kernels.cpu import CpuOps

        return CpuOps(threads, find_isa(isa), cpus)
    raise ValueError(f"kernels is {name}, but must be cpu or reference")


def find_isa(isa: IsaName) -> str:
    """The instruction set that the native kernels use where `isa` is asked for.

    Raises:
        ConfigError: this CPU and build have no such set.
        ImportError: the extension was not built.
    """
    from stoker.kernels.cpu import available_isas

    offered = available_isas()
    if isa == "auto":
        return offered[0]
    if isa not in offered:
        raise ConfigError(
            f"isa is {isa}, but this CPU and build have only {', '.join(offered)}", param="isa"
        )
    return isa


def recordable(ops: Ops) -> CpuOps | None:
    """`ops` itself where its calls can be recorded and replayed (`kernels.record`), else None."""
    if ops.name != "cpu":
        return None
    from stoker.kernels.cpu import CpuOps

    return ops if isinstance(ops, CpuOps) else None
