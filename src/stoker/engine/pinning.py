"""Binds compute threads to cores, where `pin_threads` asks for it.

Never done unasked: Linux does not tell whether another engine has the same CPUs, and two that are
bound to the same cores run at half speed beside idle ones. The API process is left free.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from stoker.core.config import Machine

logger = logging.getLogger(__name__)


def pinned_cpus(threads: int, machine: Machine) -> tuple[int, ...]:
    """A logical CPU for each of `threads`, no two on one physical core; empty, with a word in the
    log, where that cannot be."""
    if not machine.core_cpus:
        logger.warning("pin_threads does nothing: this system binds no threads to cores")
        return ()
    if threads > machine.physical_cores:
        logger.warning(
            "pin_threads does nothing: threads is %d, but this process may use only %d cores",
            threads,
            machine.physical_cores,
        )
        return ()
    # The last ones: interrupts and what is not ours tend to the first.
    return machine.core_cpus[-threads:]


def pin_caller(cpus: Sequence[int]) -> None:
    """Bind this thread, which drives the compute threads, to the first of their CPUs.

    Threads that it starts from now on inherit that, so this comes last.
    """
    if cpus:
        os.sched_setaffinity(0, {cpus[0]})
