"""Samples → a table of medians with spread, and ratios of ours to the peers'. Runs nothing.

A run's samples are kept whole in its report, so that reports of single parts, or of more rounds,
can be put together (`merged`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.peers.cells import CELLS, SERVER_CELLS

OURS = "ours"
SAME_FILE_PEER = "llama.cpp"
BEST_PEERS = ("llama.cpp", "ik_llama.cpp")
"""Whose fastest format is the bar."""
PEER_SERVER = "llama-server"

Ratios = dict[str, float | None]
Figures = dict[str, float]


@dataclass(slots=True)
class Samples:
    """Figures of one engine on one file, a list for each cell, one entry a round."""

    name: str
    kind: str
    cells: dict[str, list[float | None]] = field(default_factory=dict)
    """None stands for a round that failed."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.kind}"

    def add(self, cells: Iterable[str], figures: Figures) -> None:
        """One round of some cells; a cell without a figure failed."""
        for cell in cells:
            self.cells.setdefault(cell, []).append(figures.get(cell))

    def values(self, cell: str) -> list[float]:
        """The rounds of a cell that did not fail."""
        return [value for value in self.cells.get(cell, ()) if value is not None]

    def median(self, cell: str) -> float | None:
        values = self.values(cell)
        return median(values) if values else None

    def text(self, cell: str, digits: int) -> str:
        """Median, in brackets the lowest and the highest round, and how many rounds failed."""
        values, failed = self.values(cell), self.cells.get(cell, []).count(None)
        if not values:
            return "failed" if failed else "-"
        middle, low, high = median(values), min(values), max(values)
        spread = f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"
        return f"{spread} {failed} failed" if failed else spread


@dataclass(slots=True)
class ModelRun:
    """All that was measured on one model."""

    base: str
    """Format of the file that every engine runs."""
    token_bytes: int
    """Bytes of that file's weights that decoding one token reads."""
    rows: list[Samples] = field(default_factory=list)
    read_gb_s: list[float] = field(default_factory=list)
    """What the threads read from memory, in the rounds in which ours decoded from that file."""
    failures: list[str] = field(default_factory=list)

    @staticmethod
    def of(values: dict[str, Any]) -> ModelRun:
        """From its fields, as JSON brings them back."""
        return ModelRun(**{**values, "rows": [Samples(**row) for row in values["rows"]]})

    def row(self, name: str, kind: str) -> Samples:
        """The samples of an engine on a file, new ones if there are none yet."""
        found = next((row for row in self.rows if (row.name, row.kind) == (name, kind)), None)
        if found is None:
            found = Samples(name, kind)
            self.rows.append(found)
        return found

    def add(self, other: ModelRun) -> None:
        """Put another run of the same model behind this one."""
        if (self.base, self.token_bytes) != (other.base, other.token_bytes):
            raise ValueError(f"runs of different files: {self.base} and {other.base}")
        for theirs in other.rows:
            mine = self.row(theirs.name, theirs.kind)
            for cell, values in theirs.cells.items():
                mine.cells.setdefault(cell, []).extend(values)
        self.read_gb_s += other.read_gb_s
        self.failures += other.failures

    def summary(self) -> dict[str, Any]:
        """Ratios, medians, and the share of the memory's speed that decoding alone reaches."""
        result: dict[str, Any] = comparisons(self.rows, self.base)
        result["medians"] = {
            row.label: {cell: row.median(cell) for cell in row.cells} for row in self.rows
        }
        result["failures"] = self.failures
        if self.read_gb_s:
            decode1 = self.row(OURS, self.base).cells.get("decode1", [])
            shares = [
                speed * self.token_bytes / 1e9 / read
                for speed, read in zip(decode1, self.read_gb_s, strict=True)
                if speed is not None
            ]
            result["read_gb_s"] = round(median(self.read_gb_s), 2)
            result["read_fraction_decode1"] = round(median(shares), 3) if shares else None
        return result


def merged(reports: Sequence[dict[str, ModelRun]]) -> dict[str, ModelRun]:
    """Model → all its samples of several reports."""
    result: dict[str, ModelRun] = {}
    for report in reports:
        for name, run in report.items():
            if name in result:
                result[name].add(run)
            else:
                result[name] = run
    return result


def tables(name: str, run: ModelRun) -> str:
    """A model's engines and, where there are any, its servers."""
    parts = []
    for title, cells, digits in (
        ("tokens/s", CELLS, 0),
        ("agents over HTTP: output tokens/s, seconds", SERVER_CELLS, 2),
    ):
        shown = [cell for cell in cells if any(cell in row.cells for row in run.rows)]
        rows = [row for row in run.rows if any(cell in row.cells for cell in shown)]
        if rows:
            parts.append(f"{name}, {title}\n{table(rows, shown, digits)}\n")
    return "\n".join(parts)


def table(samples: Sequence[Samples], cells: Sequence[str], digits: int = 0) -> str:
    """A line an engine, a column a cell."""
    lines = [["", *cells]] + [
        [row.label, *(row.text(cell, digits) for cell in cells)] for row in samples
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def comparisons(samples: Sequence[Samples], base: str) -> dict[str, Any]:
    """Ours over the best peer in any format, and over llama.cpp on the same file.

    `vs_best_peer` takes ours on the base file; `vs_best_peer_by_format` has one such comparison
    for each format that ours ran.
    """
    ours = {row.kind: row for row in samples if row.name == OURS}
    best = {kind: _vs_best(row, samples) for kind, row in ours.items()}
    missing = Samples(OURS, base)
    same = [row for row in samples if row.name in (SAME_FILE_PEER, PEER_SERVER)]
    return {
        "vs_best_peer": best.get(base) or _vs_best(missing, samples),
        "vs_llamacpp_same_file": _vs_best(
            ours.get(base, missing), [row for row in same if row.kind == base]
        ),
        "vs_best_peer_by_format": best,
    }


def _vs_best(ours: Samples, samples: Sequence[Samples]) -> dict[str, Any]:
    """Cell by cell the fastest peer; of `ttft_p90` less than 1 is better."""
    peers = [row for row in samples if row.name in BEST_PEERS]
    result: dict[str, Any] = {
        cell: ratio(ours.median(cell), _highest(peers, cell)) for cell in CELLS
    }
    servers = [row for row in samples if row.name == PEER_SERVER and row.median("throughput")]
    fastest = max(servers, key=lambda row: row.median("throughput") or 0.0, default=None)
    if fastest is not None and ours.median("throughput"):
        result["server"] = {
            cell: ratio(ours.median(cell), fastest.median(cell))
            for cell in ("throughput", "ttft_p90")
        }
    return result


def _highest(rows: Sequence[Samples], cell: str) -> float | None:
    return max((speed for row in rows if (speed := row.median(cell))), default=None)


def ratio(ours: float | None, peer: float | None) -> float | None:
    return None if not ours or not peer else round(ours / peer, 3)
