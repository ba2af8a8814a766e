"""Progress bars on stderr for `LLM`; silent where stderr is no terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from stoker.core.request import Output


class _Bar:
    """A progress bar on stderr while the block runs."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()


class LoadBar(_Bar):
    """Bytes of weights loaded; `report` is what a model's builder calls."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("Loading weights"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None)

    def report(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)


class TokenBar(_Bar):
    """Finished choices and generated tokens per second."""

    def __init__(self, num_choices: int, enabled: bool) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("Generating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[tokens]} tokens · {task.fields[speed]:.1f} tokens/s"),
            TimeElapsedColumn(),
            console=console,
            disable=not (enabled and console.is_terminal),
        )
        self._tokens = 0
        self._task = self._progress.add_task("", total=num_choices, tokens=0, speed=0.0)

    def advance(self, output: Output) -> None:
        """Count one more piece of an answer."""
        self._tokens += len(output.token_ids)
        elapsed_s = self._progress.tasks[self._task].elapsed or 0.0
        self._progress.update(
            self._task,
            advance=int(output.finish_reason is not None),
            tokens=self._tokens,
            speed=self._tokens / elapsed_s if elapsed_s else 0.0,
        )
