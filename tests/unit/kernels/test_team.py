"""The thread team: more threads than cores, many short jobs, several callers at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from stoker.kernels.cpu import CpuOps


def test_callers_in_several_threads_get_their_own_results() -> None:
    ops = CpuOps(4)
    inputs = [np.full((50, 2000), i, np.float32) for i in range(4)]

    def work(x: np.ndarray) -> bool:
        return all(np.array_equal(ops.add(x, x), x + x) for _ in range(100))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, inputs))


def test_a_team_that_fell_asleep_wakes_up() -> None:
    ops = CpuOps(4)
    x = np.ones((200, 2000), np.float32)
    for _ in range(20):
        time.sleep(0.002)  # ten times what an idle thread spins
        assert np.array_equal(ops.add(x, x), x * 2)


def test_teams_come_and_go() -> None:
    x = np.ones((100, 2000), np.float32)
    for _ in range(30):
        assert np.array_equal(CpuOps(3).add(x, x), x * 2)
