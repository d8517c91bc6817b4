"""The commitInfo of several statements, merged into that of their one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltasql.spec.actions import CommitInfo

_METRICS = "operationMetrics"


def joined_info(first: CommitInfo, second: CommitInfo) -> CommitInfo:
    """One commitInfo for both: metrics are added up; otherwise the later one counts."""
    metrics = _sums(first.extra.get(_METRICS) or {}, second.extra.get(_METRICS) or {})
    extra = {**first.extra, **second.extra}
    if metrics:
        extra[_METRICS] = metrics
    return CommitInfo(
        engine_info=second.engine_info or first.engine_info,
        user_name=second.user_name or first.user_name,
        extra=extra,
    )


def _sums(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Sums of counts, as the texts that Delta uses; of other values the later one."""
    found = dict(first)
    for name, value in second.items():
        texts = str(found.get(name, "0")), str(value)
        is_count = all(text.isdecimal() for text in texts)
        found[name] = str(sum(map(int, texts))) if is_count else value
    return found
