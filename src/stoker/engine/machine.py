"""What this machine has for the engine: memory that is free to it, cores that it may run on.

A container sees the host's figures in /proc, so the limits of its control groups count too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from stoker.core.config import Machine

UNLIMITED = 1 << 60
"""Control groups of version 1 write a number near 2⁶³ for "no limit"."""


def machine_facts(root: Path = Path("/")) -> Machine:
    """Free memory in bytes and usable physical cores. `root` holds /proc and /sys."""
    free = psutil.virtual_memory().available
    core_cpus = _core_cpus(root)
    cores = len(core_cpus) or psutil.cpu_count(logical=False) or os.cpu_count() or 1
    for group in _memory_groups(root):
        free = min(free, _group_room(group))
    for group in _cpu_groups(root):
        cores = min(cores, _group_cores(group))
    return Machine(free_memory=max(free, 0), physical_cores=cores, core_cpus=core_cpus)


def _core_cpus(root: Path) -> tuple[int, ...]:
    """The lowest CPU of each physical core among the logical ones that this process may run on;
    all of these where the topology is not told, none where there is no such thing as a mask."""
    if not hasattr(os, "sched_getaffinity"):
        return ()
    topology = root / "sys/devices/system/cpu"
    cores: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = _text(topology / f"cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(siblings or f"cpu {cpu}", cpu)
    return tuple(cores.values())


def _group_room(folder: Path) -> int:
    """Bytes that a memory control group may still take; its page cache counts as free."""
    limit = _number(folder / "memory.max", _number(folder / "memory.limit_in_bytes", UNLIMITED))
    if limit >= UNLIMITED:
        return UNLIMITED
    used = _number(folder / "memory.current", _number(folder / "memory.usage_in_bytes", 0))
    stat = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
    return limit - used + int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _group_cores(folder: Path) -> int:
    """Cores that a CPU control group's quota is worth, rounded up."""
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not quota:
        quota = _text(folder / "cpu.cfs_quota_us")
        period = _text(folder / "cpu.cfs_period_us")
    if not quota.isdigit() or not period.isdigit():
        return UNLIMITED
    return max(1, math.ceil(int(quota) / int(period)))


def _memory_groups(root: Path) -> Iterator[Path]:
    return _groups(root, "memory")


def _cpu_groups(root: Path) -> Iterator[Path]:
    return _groups(root, "cpu")


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The control groups of this process that carry `controller`, from its own up to the root."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        group = Path(path.lstrip("/"))
        # Version 1 mounts several controllers at one folder; most systems link their single names
        # to it. Inside a container the path may be the host's: then the mount itself is our group.
        for mount in {controllers, controller if controllers else ""}:
            for folder in (group, *group.parents):
                yield root / "sys/fs/cgroup" / mount / folder


def _number(path: Path, default: int) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else default


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
