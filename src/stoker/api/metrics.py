"""Prometheus metrics of one app: vLLM's names under the prefix `stoker:`, in a registry of its own.

Gauges and counters of the engine are read from its `Stats` when someone scrapes; histograms are
filled from the timing that each choice brings along at its end. Only what is measured is exported.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from stoker.core.request import FinishReason, Output, Timing
from stoker.engine.wire import Stats

PREFIX = "stoker:"

_LATENCY = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0)
_TOKEN_TIME = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0)
_TOKENS = tuple(float(2**power) for power in range(18))

_HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "time_to_first_token_seconds": ("Arrival to first token", _LATENCY),
    "inter_token_latency_seconds": ("Time between two pieces of a choice", _TOKEN_TIME),
    "request_time_per_output_token_seconds": ("Decode time over tokens after first", _TOKEN_TIME),
    "e2e_request_latency_seconds": ("Arrival to last token", _LATENCY),
    "request_queue_time_seconds": ("Arrival to first scheduling", _LATENCY),
    "request_prefill_time_seconds": ("First scheduling to first token", _LATENCY),
    "request_decode_time_seconds": ("First token to last token", _LATENCY),
    "request_prompt_tokens": ("Prompt tokens of a choice", _TOKENS),
    "request_generation_tokens": ("Generated tokens of a choice", _TOKENS),
}


class Metrics:
    """What one app exports; `stats` reads the engine's numbers of the moment."""

    def __init__(self, model_name: str, stats: Callable[[], Stats]) -> None:
        self._model_name = model_name
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_EngineCollector(model_name, stats))
        self._histograms = {
            name: Histogram(
                PREFIX + name, doc, ["model_name"], registry=self._registry, buckets=buckets
            ).labels(model_name)
            for name, (doc, buckets) in _HISTOGRAMS.items()
        }
        success = Counter(
            PREFIX + "request_success",
            "Choices that ended, by reason",
            ["model_name", "finished_reason"],
            registry=self._registry,
        )
        self._finished = {
            reason: success.labels(model_name, reason.value) for reason in FinishReason
        }
        self._cached = self._counter("prompt_tokens_cached", "Prompt tokens from the prefix cache")
        self._rejected = self._counter("admission_rejections", "Requests refused with 503")

    def observe(self, output: Output) -> None:
        """Record one piece of a choice that ends well or goes on."""
        if output.finish_reason is not None:
            self._finished[output.finish_reason].inc()
            self._observe_finished(output)

    def observe_gap(self, seconds: float) -> None:
        """Record the time between two pieces of one choice."""
        self._histograms["inter_token_latency_seconds"].observe(seconds)

    def count_ended(self, reason: FinishReason, choices: int) -> None:
        """Record choices that ended without a last piece: the client left, or it failed."""
        self._finished[reason].inc(choices)

    def count_rejected(self) -> None:
        self._rejected.inc()

    def render(self) -> bytes:
        """The page in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, doc: str) -> Counter:
        counter = Counter(PREFIX + name, doc, ["model_name"], registry=self._registry)
        return counter.labels(self._model_name)

    def _observe_finished(self, output: Output) -> None:
        usage, timing = output.usage, output.timing
        self._cached.inc(usage.cached_tokens)
        self._histograms["request_prompt_tokens"].observe(usage.prompt_tokens)
        self._histograms["request_generation_tokens"].observe(usage.completion_tokens)
        for name, seconds in _spans(timing, usage.completion_tokens):
            self._histograms[name].observe(max(seconds, 0.0))


def _spans(timing: Timing, num_tokens: int) -> Iterable[tuple[str, float]]:
    """The times between the stations that the choice really passed."""
    if timing.scheduled:
        yield "request_queue_time_seconds", timing.scheduled - timing.arrival
    if timing.first_token:
        yield "time_to_first_token_seconds", timing.first_token - timing.arrival
        yield "request_prefill_time_seconds", timing.first_token - timing.scheduled
    if timing.finished:
        yield "e2e_request_latency_seconds", timing.finished - timing.arrival
    if timing.finished and timing.first_token:
        decode = timing.finished - timing.first_token
        yield "request_decode_time_seconds", decode
        if num_tokens > 1:
            yield "request_time_per_output_token_seconds", decode / (num_tokens - 1)


class _EngineCollector(Collector):
    """Reads `Stats` at scrape time."""

    def __init__(self, model_name: str, stats: Callable[[], Stats]) -> None:
        self._model_name = model_name
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        stats = self._stats()
        pages = stats.pages_free + stats.pages_cached + stats.pages_held + stats.pages_leased
        used = (stats.pages_held + stats.pages_leased) / pages if pages else 0.0
        yield self._gauge("num_requests_running", "Sequences in the batch", stats.num_running)
        yield self._gauge("num_requests_waiting", "Sequences in the queue", stats.num_waiting)
        yield self._gauge("kv_cache_usage_perc", "Share of KV pages in use; 1 is all", used)
        counters = {
            "num_preemptions": ("Sequences that gave their pages back", stats.num_preemptions),
            "prompt_tokens": ("Prompt tokens computed or reused", stats.prompt_tokens),
            "generation_tokens": ("Tokens generated", stats.generation_tokens),
            "prefix_cache_queries": ("Prompt tokens looked up", stats.prefix_queries),
            "prefix_cache_hits": ("Prompt tokens found cached", stats.prefix_hits),
        }
        for name, (doc, value) in counters.items():
            counter = CounterMetricFamily(PREFIX + name, doc, labels=["model_name"])
            counter.add_metric([self._model_name], value)
            yield counter
        yield self._pages(stats)
        yield self._step_sizes(stats)

    def _pages(self, stats: Stats) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            PREFIX + "kv_pages", "KV pages by state", labels=["model_name", "state"]
        )
        for state in ("free", "cached", "held", "leased"):
            gauge.add_metric([self._model_name, state], getattr(stats, f"pages_{state}"))
        return gauge

    def _step_sizes(self, stats: Stats) -> HistogramMetricFamily:
        sizes = HistogramMetricFamily(
            PREFIX + "iteration_tokens_total", "Tokens per step", labels=["model_name"]
        )
        totals = list(itertools.accumulate(stats.steps_by_size))
        buckets = [(str(float(2**power)), count) for power, count in enumerate(totals)]
        buckets.append(("+Inf", stats.num_steps))
        sizes.add_metric([self._model_name], buckets, sum_value=stats.step_tokens)
        return sizes

    def _gauge(self, name: str, doc: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(PREFIX + name, doc, labels=["model_name"])
        gauge.add_metric([self._model_name], value)
        return gauge
