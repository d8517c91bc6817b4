"""Traces by OpenTelemetry, once they are switched on; until then nothing of it is imported.

The process that mirrors a version may be another one than its writer's. What they share is the
commit: its id, which the writer chooses, carries the trace and the span of the write, followed by
random digits. So no commit file, no table of the log and no message has a field for it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from deltasql.errors import ConfigError
from deltasql.version import __version__

_CARRIED: Final = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{16}")
_NOTHING: Final = nullcontext()
_tracer: Any = None


def switch_on(*, exporting: bool = False) -> None:
    """Trace from now on, with the process's tracer provider.

    With `exporting`, a process that has none gets one that sends spans where OpenTelemetry's
    variables say (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, …).
    """
    global _tracer  # noqa: PLW0603 - a process has one tracer provider, too
    try:
        from opentelemetry import trace

        if exporting and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            _export()
    except ModuleNotFoundError as error:
        raise ConfigError(
            "the packages for traces are not installed",
            cause=f"{error.name} is missing",
            remedy="pip install 'deltasql[otel]'",
        ) from None
    _tracer = trace.get_tracer("deltasql", __version__)


def _export() -> None:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    default = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "deltasql"}
    provider = TracerProvider(resource=Resource.create(default))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def is_on() -> bool:
    """Whether anything is traced."""
    return _tracer is not None


def span(name: str, **facts: Any) -> AbstractContextManager[Any]:
    """A span around a block, below the one that is open; without traces, nothing."""
    return _NOTHING if _tracer is None else _span(name, facts)


@contextmanager
def _span(name: str, facts: dict[str, Any]) -> Iterator[Any]:
    with _tracer.start_as_current_span(f"deltasql.{name}", attributes=_attributes(facts)) as opened:
        yield opened


def begin(name: str, **facts: Any) -> Any:
    """A span for work that begins and ends in other blocks, perhaps of other threads: `within` is
    around its end. None without traces.
    """
    if _tracer is None:
        return None
    return _tracer.start_span(f"deltasql.{name}", attributes=_attributes(facts))


def within(begun: Any) -> AbstractContextManager[Any]:
    """The block that ends what was begun."""
    if begun is None:
        return _NOTHING
    from opentelemetry import trace

    found: AbstractContextManager[Any] = trace.use_span(begun, end_on_exit=True)
    return found


def note(**facts: Any) -> None:
    """Add facts to the open span, such as those known only at its end."""
    if _tracer is not None:
        from opentelemetry import trace

        trace.get_current_span().set_attributes(_attributes(facts))


def commit_id(begun: Any = None) -> str | None:
    """An id for a commit that carries what was begun, or the open span; None without a span that
    is recorded.
    """
    if _tracer is None:
        return None
    from opentelemetry import trace

    context = (begun or trace.get_current_span()).get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return f"{context.trace_id:032x}-{context.span_id:016x}-{os.urandom(8).hex()}"


def trace_id_of(commit: str | None) -> str | None:
    """The trace that a commit id carries, or else the one of the open span."""
    if commit is not None and (found := _CARRIED.fullmatch(commit)) is not None:
        return found[1]
    if _tracer is None:
        return None
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def span_of_commit(name: str, commit: str, started: int, error: Any = None, **facts: Any) -> None:
    """Record a span from `started` (`time.time_ns`) until now, below the write of a commit."""
    if _tracer is None:
        return
    from opentelemetry import trace

    opened = _tracer.start_span(
        f"deltasql.{name}",
        context=_context_of(commit),
        start_time=started,
        attributes=_attributes({"commit_id": commit, **facts}),
    )
    if error is not None:
        opened.record_exception(error)
        opened.set_status(trace.Status(trace.StatusCode.ERROR, getattr(error, "problem", "")))
    opened.end(time.time_ns())


def _context_of(commit: str) -> Any:
    """The context of the write that a commit id carries; None, the current one, if it has none."""
    from opentelemetry import trace

    found = _CARRIED.fullmatch(commit)
    if found is None:
        return None
    parent = trace.SpanContext(
        int(found[1], 16),
        int(found[2], 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))


def _attributes(facts: dict[str, Any]) -> dict[str, Any]:
    return {f"deltasql.{name}": value for name, value in facts.items() if value is not None}
