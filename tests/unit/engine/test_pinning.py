"""Pinning: a core for each thread or none at all, inside the process's own mask."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from stoker.core.config import EngineConfig, Machine
from stoker.engine.pinning import pin_caller, pinned_cpus
from stoker.kernels.cpu import CpuOps

LINUX = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux pins threads")


def machine(cores: int, *core_cpus: int) -> Machine:
    return Machine(free_memory=0, physical_cores=cores, core_cpus=core_cpus)


def masks() -> dict[int, set[int]]:
    """The CPUs that each thread of this process may run on."""
    return {int(tid): os.sched_getaffinity(int(tid)) for tid in os.listdir("/proc/self/task")}


@pytest.fixture
def own_mask() -> Iterator[set[int]]:
    mask = os.sched_getaffinity(0)
    yield mask
    os.sched_setaffinity(0, mask)


def test_nothing_is_pinned_unasked() -> None:
    assert EngineConfig().pin_threads is False


def test_each_thread_gets_a_core_and_the_first_cores_stay_free() -> None:
    assert pinned_cpus(2, machine(4, 0, 1, 2, 3)) == (2, 3)
    assert pinned_cpus(4, machine(4, 0, 2, 4, 6)) == (0, 2, 4, 6)


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        pytest.param(machine(2, 0, 1), "only 2 cores", id="mask smaller than the team"),
        pytest.param(machine(2, 0, 1, 2, 3), "only 2 cores", id="quota smaller than the team"),
        pytest.param(machine(8), "binds no threads", id="not Linux"),
    ],
)
def test_what_cannot_be_pinned_is_said(
    facts: Machine, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert pinned_cpus(3, facts) == ()
    assert word in caplog.text


@LINUX
def test_the_team_is_bound_and_nobody_else(own_mask: set[int]) -> None:
    last, before = max(own_mask), masks()
    ops = CpuOps(3, cpus=(last, last, last))
    team = masks().keys() - before.keys()
    assert len(team) == 2
    deadline = time.monotonic() + 60
    while any(masks()[tid] != {last} for tid in team):  # the first thing that a thread does
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert {tid: masks()[tid] for tid in before} == before
    ones = np.ones((40, 2000), np.float32)
    assert np.array_equal(ops.add(ones, ones), ones + ones)


@LINUX
def test_a_cpu_that_is_not_there_binds_nothing(own_mask: set[int]) -> None:
    ops = CpuOps(2, cpus=(0, 100_000))
    ones = np.ones((40, 2000), np.float32)
    assert np.array_equal(ops.add(ones, ones), ones + ones)
    assert all(mask == own_mask for mask in masks().values())


def test_cpus_are_one_for_each_thread() -> None:
    with pytest.raises(ValueError, match="cpus are 1, but threads is 2"):
        CpuOps(2, cpus=(0,))


@LINUX
def test_the_caller_is_bound_last_and_alone(own_mask: set[int]) -> None:
    others = {tid: mask for tid, mask in masks().items() if tid != threading.get_native_id()}
    pin_caller([max(own_mask)])
    assert os.sched_getaffinity(0) == {max(own_mask)}
    assert {tid: masks()[tid] for tid in others} == others
    pin_caller([])
    assert os.sched_getaffinity(0) == {max(own_mask)}
