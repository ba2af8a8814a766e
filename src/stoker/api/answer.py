"""From a validated job to a response, the same for every generating endpoint."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

import msgspec
from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from stoker.api.assemble import Assembler, Format, Head, Json, Prompt, fold
from stoker.api.errors import error_body, info_of
from stoker.api.params import named_as, wire_names
from stoker.api.record import CLIENT_CLOSED_REQUEST, Generation, RequestRecord, record_of
from stoker.api.schema import SamplingBody
from stoker.api.sse import (
    DONE,
    KEEP_ALIVE,
    KEEP_ALIVE_S,
    EventStreamResponse,
    frame,
    run_while_connected,
)
from stoker.api.state import AppState
from stoker.api.streams import RequestOutputs
from stoker.core.errors import Overloaded, RequestAborted
from stoker.core.request import FinishReason, Output, SamplingParams
from stoker.core.validate import check_prompt, check_sampling

ACCEPT_S = 5.0
"""How long a stream's status line waits for the engine's first word, so that a refusal has its real
status code. A request that queues longer is taken for accepted."""

MOST_AT_ONCE = 128
"""Outputs turned to JSON without a pause; with logprobs that is about 10 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request, understood: everything that makes the answer."""

    body: SamplingBody
    params: SamplingParams
    prompts: list[Prompt]
    wire_format: Format
    id_prefix: str
    operation: str
    """See `record.Generation`."""

    @property
    def names(self) -> Mapping[str, str]:
        return wire_names(self.body)


def check_job(state: AppState, job: Job) -> None:
    """Raise InvalidRequest, in the client's words, for what this engine could never run."""
    info = state.engine.info
    prompt_name = job.names.get("prompt", "prompt")
    with named_as(job.names):
        check_sampling(job.params, info.vocab_size)
        for prompt in job.prompts:
            check_prompt(
                prompt.token_ids,
                info.vocab_size,
                info.max_model_len,
                prompt_name,
                job.params.max_tokens,
            )


async def answer(state: AppState, request: Request, job: Job) -> Response:
    """Run the job; the client's disconnect ends it in the engine, at any stage."""
    check_job(state, job)
    state.check_accepting()
    run = _Run(state, job, record_of(request.scope))
    try:
        if job.body.stream:
            await run_while_connected(request.receive, run.accepted())
            return EventStreamResponse(run.frames(), run.close)
        body = await run_while_connected(request.receive, run.body())
    except ClientDisconnect:
        await run.close()
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    except BaseException as error:
        if isinstance(error, Overloaded):
            state.metrics.count_rejected()
        await run.close()
        raise
    return Response(msgspec.json.encode(body), media_type="application/json")


class _Run:
    """One job in the engine. Close it on every way out."""

    def __init__(self, state: AppState, job: Job, record: RequestRecord) -> None:
        self._state = state
        self._job = job
        self._record = record
        response_id = f"{job.id_prefix}-{uuid.uuid4().hex}"
        record.generation = self._generation = Generation(job.operation, job.params, response_id)
        self._stream = RequestOutputs(
            [
                state.engine.generate(
                    prompt.token_ids,
                    job.params,
                    priority=job.body.priority or 0,
                    cache_salt=job.body.cache_salt,
                    request_id=record.id,
                )
                for prompt in job.prompts
            ]
        )
        state.in_flight.add(self._stream, {record.id, response_id})
        options = job.body.stream_options
        self._assembler = Assembler(
            job.wire_format,
            Head(response_id, int(time.time()), state.model_name),
            job.prompts,
            job.params.n,
            include_usage=not job.body.stream or bool(options and options.include_usage),
            return_token_ids=bool(job.body.return_token_ids),
        )
        self._is_closed = False
        self._end = FinishReason.ABORT
        self._last_piece: dict[tuple[int, int], float] = {}

    async def accepted(self) -> None:
        """Return once the engine took the request; raise if it refused it."""
        await self._stream.wait(ACCEPT_S)
        try:
            with named_as(self._job.names):
                self._stream.raise_early()
        except Exception:
            self._end = FinishReason.ERROR
            raise

    async def body(self) -> Json:
        """The whole answer: the fold of what a stream would have sent."""
        chunks: list[Json] = []
        with named_as(self._job.names):
            while not self._stream.is_over:
                await self._stream.wait(None)
                self._collect(chunks)
        chunks += self._assembler.finish()
        await self.close()
        return fold(self._job.wire_format, chunks)

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Server-sent events up to [DONE], or up to an error event."""
        chunks: list[Json] = []
        try:
            while not self._stream.is_over:
                if not await self._stream.wait(KEEP_ALIVE_S):
                    yield KEEP_ALIVE
                    continue
                # What lies ready leaves together: one write, however many tokens a step gave.
                self._collect(chunks)
                if chunks:
                    body = _frames(chunks)
                    chunks.clear()
                    yield body
            yield _frames(self._assembler.finish()) + DONE
        except Exception as error:
            info = info_of(error)
            self._record.error = info.code or info.type
            yield _frames(chunks) + frame(error_body(info))

    async def close(self) -> None:
        """Abort what still runs; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._state.in_flight.remove(self._stream)
        if self._assembler.has_begun or self._end is FinishReason.ABORT:
            self._state.metrics.count_ended(self._end, self._assembler.unfinished)
        self._generation.cut(self._end, self._assembler.unfinished)
        # The abort must go out even if this task is itself being cancelled.
        await asyncio.shield(self._stream.close())

    def _collect(self, chunks: list[Json]) -> None:
        """Append the chunks of outputs that lie ready; those before an error are kept.

        Of a long backlog it takes a part, so that other streams have their turn.
        """
        try:
            for item in itertools.islice(iter(self._stream.take, None), MOST_AT_ONCE):
                chunks += self._assembler.push(*item)
                self._measure(*item)
        except Exception as error:
            if not isinstance(error, RequestAborted):
                self._end = FinishReason.ERROR
            raise

    def _measure(self, prompt: int, output: Output) -> None:
        metrics, key, now = self._state.metrics, (prompt, output.choice), time.monotonic()
        if key in self._last_piece:
            metrics.observe_gap(now - self._last_piece[key])
        self._last_piece[key] = now
        metrics.observe(output)
        self._generation.observe(prompt, output)


def _frames(chunks: list[Json]) -> bytes:
    return b"".join(map(frame, chunks))
