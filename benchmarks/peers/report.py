"""Samples → a table of medians with spread, and ratios of ours to the peers'. Runs nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.peers.cells import CELLS, Speeds

OURS = "ours"
SAME_FILE_PEER = "llama.cpp"
BEST_PEERS = ("llama.cpp", "ik_llama.cpp")
"""Whose fastest format is the bar."""
SERVER_CELLS = ("throughput", "ttft_p50", "ttft_p90")

Ratios = dict[str, float | None]


@dataclass(slots=True)
class Samples:
    """Figures of one engine on one file, a list for each cell, one entry a round."""

    name: str
    kind: str
    cells: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def label(self) -> str:
        return f"{self.name} {self.kind}"

    def add(self, speeds: Speeds) -> None:
        for cell, speed in speeds.items():
            self.cells[cell].append(speed)

    def median(self, cell: str) -> float | None:
        return median(self.cells[cell]) if self.cells.get(cell) else None


def table(samples: Sequence[Samples], cells: Sequence[str], digits: int = 0) -> str:
    """A line an engine: median and, in brackets, the lowest and the highest round."""
    lines = [["", *cells]] + [
        [row.label, *(_cell(row.cells.get(cell, []), digits) for cell in cells)] for row in samples
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _cell(values: list[float], digits: int) -> str:
    if not values:
        return "-"
    middle, low, high = median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def speed_ratios(samples: Sequence[Samples], base: str) -> dict[str, Ratios]:
    """Ours on the base file over the best peer in any format, and over llama.cpp on that file."""
    best, same = {}, {}
    for cell in CELLS:
        ours = _find(samples, OURS, base, cell)
        peers = [row.median(cell) for row in samples if row.name in BEST_PEERS]
        best[cell] = ratio(ours, max((speed for speed in peers if speed), default=None))
        same[cell] = ratio(ours, _find(samples, SAME_FILE_PEER, base, cell))
    return {"vs_best_peer": best, "vs_llamacpp_same_file": same}


def server_ratios(samples: Sequence[Samples], base: str) -> dict[str, Ratios]:
    """As `speed_ratios`, against llama-server; of `ttft_p90` less than 1 is better."""
    rows = [row for row in samples if row.name != OURS and row.median("throughput")]
    best = max(rows, key=lambda row: row.median("throughput") or 0.0, default=None)
    same = next((row for row in rows if row.kind == base), None)
    ours = next((row for row in samples if row.name == OURS), None)
    return {
        "vs_best_peer": _server_ratio(ours, best),
        "vs_llamacpp_same_file": _server_ratio(ours, same),
    }


def _server_ratio(ours: Samples | None, peer: Samples | None) -> Ratios:
    cells = ("throughput", "ttft_p90")
    if ours is None or peer is None:
        return dict.fromkeys(cells)
    return {cell: ratio(ours.median(cell), peer.median(cell)) for cell in cells}


def _find(samples: Sequence[Samples], name: str, kind: str, cell: str) -> float | None:
    return next(
        (row.median(cell) for row in samples if row.name == name and row.kind == kind), None
    )


def ratio(ours: float | None, peer: float | None) -> float | None:
    return None if not ours or not peer else round(ours / peer, 3)
