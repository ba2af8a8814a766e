"""Machine facts: control groups of both versions bound what /proc says of the host."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from stoker.engine.machine import machine_facts

MIB = 1 << 20


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_machine_has_memory_and_cores() -> None:
    facts = machine_facts()
    assert facts.free_memory > MIB
    assert 1 <= facts.physical_cores <= (os.cpu_count() or 1)


def test_version_2_limits_count_and_page_cache_is_free(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/outer/inner\n",
            "sys/fs/cgroup/outer/inner/memory.max": "max\n",
            "sys/fs/cgroup/outer/memory.max": f"{100 * MIB}\n",
            "sys/fs/cgroup/outer/memory.current": f"{60 * MIB}\n",
            "sys/fs/cgroup/outer/memory.stat": f"anon 5\ninactive_file {20 * MIB}\n",
            "sys/fs/cgroup/outer/cpu.max": "50000 100000\n",
        },
    )
    facts = machine_facts(root)
    assert facts.free_memory == 60 * MIB
    assert facts.physical_cores == 1


def test_version_1_limits_count(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/job\n1:cpu,cpuacct:/job\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{50 * MIB}\n",
            "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{60 * MIB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert machine_facts(root).free_memory == 0, "over its limit: nothing is free, not less"


def topology(*cores: str) -> dict[str, str]:
    """Files of a machine with these physical cores, each a list of logical CPUs: "0,4"."""
    return {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{core}\n"
        for core in cores
        for cpu in core.split(",")
    }


def quota(text: str) -> dict[str, str]:
    """What a process in a container sees of its own group, version 2."""
    return {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{text}\n"}


SMT = topology("0,4", "1,5", "2,6", "3,7")
PLAIN = topology(*"01234567")
V1 = {
    "proc/self/cgroup": "3:cpu,cpuacct:/docker/5f\n",  # the host's path: only the mount is ours
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize(
    ("files", "mask", "core_cpus", "cores"),
    [
        pytest.param(SMT, range(8), (0, 1, 2, 3), 4, id="hyperthreads are one core"),
        pytest.param(PLAIN, range(8), tuple(range(8)), 8, id="no hyperthreads"),
        pytest.param(SMT, {2, 3, 6, 7}, (2, 3), 2, id="taskset to two whole cores"),
        pytest.param(SMT, {5, 6, 7}, (5, 6, 7), 3, id="taskset to half cores"),
        pytest.param(SMT, {1, 5}, (1,), 1, id="taskset to one core"),
        pytest.param({}, {0, 3}, (0, 3), 2, id="topology not told"),
        pytest.param(SMT | quota("max 100000"), range(8), (0, 1, 2, 3), 4, id="no quota"),
        pytest.param(SMT | quota("200000 100000"), range(8), (0, 1, 2, 3), 2, id="--cpus=2"),
        pytest.param(SMT | quota("150000 100000"), range(8), (0, 1, 2, 3), 2, id="--cpus=1.5"),
        pytest.param(SMT | quota("10000 100000"), range(8), (0, 1, 2, 3), 1, id="--cpus=0.1"),
        pytest.param(SMT | quota("600000 100000"), {0, 1, 4}, (0, 1), 2, id="mask below quota"),
        pytest.param(PLAIN | V1, range(8), tuple(range(8)), 2, id="quota of version 1"),
        pytest.param(
            PLAIN | V1 | {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n"},
            range(8),
            tuple(range(8)),
            8,
            id="no quota of version 1",
        ),
    ],
)
def test_cores_are_physical_and_what_mask_and_quota_leave(
    files: dict[str, str],
    mask: Iterable[int],
    core_cpus: tuple[int, ...],
    cores: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(mask))
    facts = machine_facts(write(tmp_path, files))
    assert facts.core_cpus == core_cpus
    assert facts.physical_cores == cores


def test_a_system_without_masks_has_cores_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    facts = machine_facts(write(tmp_path, {}))
    assert facts.core_cpus == ()
    assert facts.physical_cores >= 1
