"""Machine facts: control groups of both versions bound what /proc says of the host."""

from __future__ import annotations

import os
from pathlib import Path

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


def test_hyperthreads_are_one_core(tmp_path: Path) -> None:
    siblings = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": "0,1\n"
        for cpu in os.sched_getaffinity(0)
    }
    assert machine_facts(write(tmp_path, siblings)).physical_cores == 1
