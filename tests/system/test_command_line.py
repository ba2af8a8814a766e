"""The commands as a user starts them: examples that run, Ctrl-C, and what the exit code says."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkpoints import make_tiny
from tests.support.engine import ROOT
from tests.support.processes import children, running_server, wait_gone


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny("llama", folder)
    return folder


def run_example(name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_streaming_example_and_ctrl_c(tiny: Path) -> None:
    with running_server([str(tiny)]) as server:
        server.wait_ready()
        said = run_example("stream_chat.py", "What burns?", f"{server.url}/v1")
        assert said.splitlines()[-1].endswith(" tokens")
        engine = server.engine_pid

        # A terminal sends Ctrl-C to the whole group: the engine must leave the ending to us.
        for process in [server.process.pid, *(p.pid for p in children(server.process.pid))]:
            subprocess.run(["kill", "-INT", str(process)], check=True)
        assert server.process.wait(20) == 0
        assert wait_gone(engine, 5)


def test_the_offline_example(tiny: Path) -> None:
    said = run_example("offline_batch.py", str(tiny))
    assert said.count("\n\n") == 3 and said.startswith("The boiler is")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "/no/such/model"], "no such file or folder"),
        (["serve", "--port", "99999"], "port"),
        (["generate", "a", "--model", "/no/such.gguf"], "no such file or folder"),
        (["doctor", "/no/such/model"], "no such file or folder"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stoker.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert says in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 1 or done.stderr.startswith("usage:")


def test_sigterm_while_the_model_loads_ends_with_0(tiny: Path) -> None:
    with running_server([str(tiny)]) as server:
        server.wait_ready(path="/version")
        loading = [process.pid for process in children(server.process.pid)]
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        assert all(wait_gone(pid, 5) for pid in loading)
