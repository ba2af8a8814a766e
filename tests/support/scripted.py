"""ScriptedRunner: a runner without a model that emits scripted tokens and audits every page.

It keeps what a real KV cache would hold, (group, page, slot) → the prefix whose last token's KV was
written there, and checks on each plan that every position a computed token can see is where the
plan's page table says, with the KV of exactly this sequence's tokens. A stale page, an aliased
one, a wrong prefix hit, a page freed too early or dropped from a window too soon all show as a
`KVMismatch` that names the place.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stoker.core.model import PAGE_SIZE, KVLayout
from stoker.core.plan import SampleSpec, SeqResult, SeqStep, StepPlan, StepResult
from stoker.core.request import TokenLogprobs

Script = Callable[[str, SampleSpec], int]
"""(request id, what to draw) → the token; a pure function, whatever the batch."""


class KVMismatch(AssertionError):
    """A plan would read KV that is not this sequence's."""


def by_hash(vocab_size: int) -> Script:
    """The token is a pure function of (history, seed, choice); banned ids are stepped over."""

    def draw(request_id: str, spec: SampleSpec) -> int:
        key = repr((list(spec.history), spec.params.seed, spec.choice)).encode()
        token = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") % vocab_size
        while token in spec.banned_token_ids:
            token = (token + 1) % vocab_size
        return token

    return draw


def by_list(outputs: Mapping[str, Sequence[int]]) -> Script:
    """Output token k of a request whose id starts with a key is that key's k-th token.

    The last token repeats where the script is shorter than the request.
    """

    def draw(request_id: str, spec: SampleSpec) -> int:
        tokens = next(t for prefix, t in outputs.items() if request_id.startswith(prefix))
        position = len(spec.history) - spec.num_prompt_tokens
        return tokens[min(position, len(tokens) - 1)]

    return draw


class ScriptedRunner:
    """Implements `core.plan.Runner`.

    `errors`: request id → message; each fails that sequence alone at its first sampled token.
    `delay_s`: sleep per step. Logprobs, where asked for: the drawn token at -0.5, then ids 0, 1, ..
    """

    def __init__(
        self,
        script: Script,
        layout: KVLayout | None = None,
        *,
        errors: Mapping[str, str] | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self._script = script
        self._layout = layout
        self._errors = dict(errors or {})
        self._delay_s = delay_s
        self._kv: dict[tuple[int, int], tuple[int, int]] = {}  # (page, slot) → (group, prefix)
        self._nodes: dict[tuple[int, int], int] = {}  # (prefix before, token) → prefix
        self._parents = [0]  # prefix → prefix before
        self.computed: dict[str, int] = {}
        """Tokens computed per request, recomputed ones counted again."""
        self.plans: list[StepPlan] = []

    def execute(self, plan: StepPlan) -> StepResult:
        if self._delay_s:
            time.sleep(self._delay_s)
        self.plans.append(plan)
        ids = [step.request_id for step in plan.seqs]
        if len(set(ids)) != len(ids):
            raise KVMismatch(f"step {plan.step_id} has a request twice: {ids}")
        for step in plan.seqs:
            self.computed[step.request_id] = self.computed.get(step.request_id, 0) + len(
                step.token_ids
            )
        if self._layout is not None:
            # All writes come before all reads: a page two sequences write in one step shows.
            chains = [self._write(step) for step in plan.seqs]
            for step, chain in zip(plan.seqs, chains, strict=True):
                self._read(step, chain)
        return StepResult(
            plan.step_id,
            tuple(
                replace(
                    self._draw(step), prompt_logprobs=self._score(step), pooled=self._pool(step)
                )
                for step in plan.seqs
            ),
        )

    def _score(self, step: SeqStep) -> tuple[TokenLogprobs, ...]:
        """Each token of the prompt at minus (1 + the token before it)."""
        spec = step.score
        if spec is None:
            return ()
        top = tuple(range(spec.num_top))
        before = step.token_ids[spec.first : spec.first + len(spec.targets)]
        if len(before) < len(spec.targets):
            raise KVMismatch(f"{step.request_id} is asked for rows that the step does not have")
        return tuple(
            TokenLogprobs(token, -1.0 - prior, top, tuple(-1.0 - i for i in top), rank=1 + prior)
            for prior, token in zip(before, spec.targets, strict=True)
        )

    def _pool(self, step: SeqStep) -> bytes:
        """A vector of two numbers: the last token or the mean of all, and the number of rows."""
        spec = step.pool
        if spec is None:
            return b""
        if spec.pooling == "last":
            return struct.pack("<2f", step.token_ids[-1], 1)
        total, count = struct.unpack("<2d", spec.partial) if spec.partial else (0.0, 0.0)
        rows = step.token_ids[spec.first :]
        total, count = total + sum(rows), count + len(rows)
        if spec.total is None:
            return struct.pack("<2d", total, count)
        return struct.pack("<2f", total / spec.total, count)

    def _draw(self, step: SeqStep) -> SeqResult:
        spec = step.sample
        if spec is None:
            return SeqResult(step.request_id)
        if len(spec.history) != step.start + len(step.token_ids):
            raise KVMismatch(f"{step.request_id} samples before all known tokens are computed")
        if step.request_id in self._errors:
            return SeqResult(step.request_id, error=self._errors[step.request_id])
        token = self._script(step.request_id, spec)
        logprobs = None
        if spec.params.logprobs is not None:
            top = tuple(range(spec.params.logprobs))
            logprobs = (TokenLogprobs(token, -0.5, top, tuple(-1.0 - i for i in top)),)
        return SeqResult(step.request_id, (token,), logprobs)

    def _prefixes(self, step: SeqStep) -> list[int]:
        """A number for each prefix up to the step's end; equal numbers mean equal prefixes.

        Where the step samples, the history says what comes before `start`. Elsewhere only the pages
        do: they are believed until the step that samples, and checked against the history there.
        """
        chain: list[int] = []
        tokens: Sequence[int] = step.token_ids
        if step.sample is not None:
            tokens = step.sample.history
        elif step.start:
            chain = self._ancestors(self._last_prefix(step))
        node = chain[-1] if chain else 0
        for token in tokens:
            node = self._nodes.setdefault((node, token), len(self._nodes) + 1)
            if node == len(self._parents):
                self._parents.append(chain[-1] if chain else 0)
            chain.append(node)
        return chain

    def _last_prefix(self, step: SeqStep) -> int:
        """The prefix that the pages claim to hold before `start`."""
        logical, slot = divmod(step.start - 1, PAGE_SIZE)
        for group, table in enumerate(step.page_tables):
            if logical < len(table) and (table[logical], slot) in self._kv:
                owner, node = self._kv[(table[logical], slot)]
                if owner == group:
                    return node
        raise KVMismatch(f"{step.request_id}: no group has KV of position {step.start - 1}")

    def _ancestors(self, node: int) -> list[int]:
        chain = []
        while node:
            chain.append(node)
            node = self._parents[node]
        return chain[::-1]

    def _write(self, step: SeqStep) -> list[int]:
        assert self._layout is not None
        chain = self._prefixes(step)
        if len(step.page_tables) != len(self._layout.groups):
            raise KVMismatch(f"{step.request_id}: a page table for each group is missing")
        for group, table in enumerate(step.page_tables):
            for position in range(step.start, len(chain)):
                page = self._page(step, group, table, position)
                # One pool: the group is part of the content, not of the place.
                self._kv[(page, position % PAGE_SIZE)] = (group, chain[position])
        return chain

    def _read(self, step: SeqStep, chain: list[int]) -> None:
        assert self._layout is not None
        for group, table in enumerate(step.page_tables):
            window = self._layout.groups[group].window
            # Queries start..end see the union of their windows: one sweep covers them all.
            first = 0 if window is None else max(0, step.start - window + 1)
            for position in range(first, len(chain)):
                page = self._page(step, group, table, position)
                if self._kv.get((page, position % PAGE_SIZE)) != (group, chain[position]):
                    raise KVMismatch(
                        f"{step.request_id}: group {group}, position {position}: page {page} does "
                        "not hold this sequence's KV"
                    )

    def _page(self, step: SeqStep, group: int, table: Sequence[int], position: int) -> int:
        logical = position // PAGE_SIZE
        if logical >= len(table) or table[logical] < 0:
            raise KVMismatch(
                f"{step.request_id}: group {group} has no page for position {position}, "
                f"computing from {step.start}"
            )
        return table[logical]
