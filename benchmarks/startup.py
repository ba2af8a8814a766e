"""How long `stoker serve` takes from the start of its process to its first token.

Usage: make bench NAME=startup ARGS="--rounds 5 [--model PATH]"

Each round starts a server of its own, and between rounds a bare `import torch` is timed: what
Stoker does without, and a yardstick from the same noisy machine.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import httpx

READY_TIMEOUT_S = 120.0
POLL_S = 0.02


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="")
    args = parser.parse_args()
    ready, first_token, floor = [], [], []
    for _ in range(args.rounds):
        floor.append(time_import_torch())
        until_ready, until_token = time_server(args.model)
        ready.append(until_ready)
        first_token.append(until_token)
    rows = {"import torch": floor, "ready": ready, "first token": first_token}
    for name, values in rows.items():
        print(
            f"{name:14} median {statistics.median(values):6.2f} s"
            f"   min {min(values):6.2f}   max {max(values):6.2f}"
        )
    figures = {
        "ready_s": round(statistics.median(ready), 3),
        "first_token_s": round(statistics.median(first_token), 3),
        "ready_over_import_torch": round(statistics.median(ready) / statistics.median(floor), 2),
        "rounds": args.rounds,
    }
    print(json.dumps(figures))


def time_import_torch() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - started


def time_server(model: str) -> tuple[float, float]:
    """Seconds from process start until /ready is 200, and until the first token is there."""
    port = free_port()
    command = [sys.executable, "-m", "stoker.cli.main", "serve", "--port", str(port)]
    started = time.perf_counter()
    server = subprocess.Popen([*command, *([model] if model else [])], stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_ready(server, url)
        until_ready = time.perf_counter() - started
        body = {"prompt": "The boiler", "max_tokens": 1}
        httpx.post(f"{url}/v1/completions", json=body, timeout=60).raise_for_status()
        return until_ready, time.perf_counter() - started
    finally:
        server.terminate()
        server.wait(30)


def wait_ready(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.perf_counter() + READY_TIMEOUT_S
    while time.perf_counter() < deadline:
        if server.poll() is not None:
            sys.exit(f"the server ended with exit code {server.returncode}")
        try:
            if httpx.get(f"{url}/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(POLL_S)
    sys.exit(f"the server was not ready after {READY_TIMEOUT_S:g} s")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address: Sequence[int] = listener.getsockname()
        return address[1]


if __name__ == "__main__":
    main()
