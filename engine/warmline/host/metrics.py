"""What the engine counts, in Prometheus' terms; never a prompt, a path or a suggestion."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest, start_http_server
from prometheus_client.registry import Collector

_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_MAX_VARIANTS: Final = 64


class Metrics:
    """Histograms and counters of one engine.

    Variants are labels by name; beyond a number of them the rest shares the label ``other``, so that names cannot grow
    the memory.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["kind", "variant"]
        self._first = Histogram(
            "warmline_first_token_seconds",
            "Time from a request's arrival to its first token.",
            labels,
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._total = Histogram(
            "warmline_request_seconds",
            "Time from a request's arrival to its end.",
            labels,
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._prompt = Counter("warmline_prompt_tokens", "Tokens of prompts.", labels, registry=self.registry)
        self._reused = Counter(
            "warmline_reused_tokens", "Tokens of prompts whose KV was there.", labels, registry=self.registry
        )
        self._predicted = Counter("warmline_predicted_tokens", "Tokens decoded.", labels, registry=self.registry)
        self._reasons = Counter(
            "warmline_reuse", "Requests by how warm they were.", ["kind", "reason"], registry=self.registry
        )
        self._outcomes = Counter(
            "warmline_requests", "Requests by their end.", ["kind", "outcome"], registry=self.registry
        )
        self._errors = Counter("warmline_errors", "Errors by code.", ["code"], registry=self.registry)
        self._kv = Counter("warmline_kv_moves", "KV saved, restored, evicted.", ["what"], registry=self.registry)
        self._gauges = Gauge("warmline_state", "Sizes and lengths now.", ["what"], registry=self.registry)
        self._variants: set[str] = set()
        self._kv_before: dict[str, int] = {}
        self._gauging = threading.Lock()  # the endpoint asks from threads of its own

    def started(self, kind: str, variant: str, *, seconds: float, prompt: int, reused: int, reason: str) -> None:
        """Count a request that reached its first token."""
        label = self._label(variant)
        self._first.labels(kind, label).observe(seconds)
        self._prompt.labels(kind, label).inc(prompt)
        self._reused.labels(kind, label).inc(reused)
        # `prefix:12/400` and `identity:adapters[0].scale` are counted without their numbers.
        self._reasons.labels(kind, reason.split("[")[0].split("/")[0].rstrip("0123456789").rstrip(":")).inc()

    def ended(self, kind: str, variant: str, *, seconds: float, predicted: int, outcome: str) -> None:
        """Count a request's end."""
        label = self._label(variant)
        self._total.labels(kind, label).observe(seconds)
        self._predicted.labels(kind, label).inc(predicted)
        self._outcomes.labels(kind, outcome).inc()

    def failed(self, code: str) -> None:
        """Count an error."""
        self._errors.labels(code).inc()

    def gauges(self, values: Mapping[str, float], kv: Mapping[str, int]) -> None:
        """Take over sizes of now, and the pool's running totals."""
        with self._gauging:
            for name, value in values.items():
                self._gauges.labels(name).set(value)
            for name, total in kv.items():
                self._kv.labels(name).inc(max(0, total - self._kv_before.get(name, 0)))
                self._kv_before[name] = total

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry).decode()

    def serve(self, port: int, refresh: Callable[[], object]) -> Callable[[], None]:
        """Serve the metrics over HTTP on 127.0.0.1 alone; return what ends that.

        Parameters
        ----------
        refresh
            Called before each answer, to take over sizes of now.

        Raises
        ------
        OSError
            The port is taken, or may not be used.
        """
        fresh = CollectorRegistry()
        fresh.register(_Refreshed(self.registry, refresh))
        server, thread = start_http_server(port, addr="127.0.0.1", registry=fresh)

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end

    def _label(self, variant: str) -> str:
        if variant not in self._variants:
            if len(self._variants) >= _MAX_VARIANTS:
                return "other"
            self._variants.add(variant)
        return variant


class _Refreshed(Collector):
    """What a registry holds, taken just after its gauges were set."""

    def __init__(self, registry: CollectorRegistry, refresh: Callable[[], object]) -> None:
        self._registry = registry
        self._refresh = refresh

    def collect(self) -> Iterable[Metric]:
        self._refresh()
        return self._registry.collect()
