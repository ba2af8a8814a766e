"""What ties the engine process to its parent: it may never outlive it.

The parent holds the other end of the child's stdin. When the parent ends, however it ends, the pipe
closes; a thread that waits for this ends the process at once, even in the middle of a step.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

import msgspec

from stoker.engine.wire import Start

STDIN = 0
_PR_SET_PDEATHSIG = 1


def take_hold() -> Start:
    """Read the start message from stdin, then watch stdin and the parent.

    SIGINT and SIGTERM are ignored from here on: both are often sent to the whole process group, and
    the parent, which gets them too, lets running requests finish before it stops the engine.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform == "linux":
        # Works even while a native kernel holds the interpreter.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    start = msgspec.json.decode(_read_line(), type=Start)
    threading.Thread(target=_end_with_stdin, name="lifeline", daemon=True).start()
    return start


def _read_line() -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(STDIN, 1)
        if not piece:
            os._exit(0)
        line += piece
    return bytes(line)


def _end_with_stdin() -> None:
    while os.read(STDIN, 4096):
        pass
    os._exit(0)
