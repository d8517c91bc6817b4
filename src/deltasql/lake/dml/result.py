"""What a write did: the version it became, and its metrics under the names of stock Delta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from deltasql.showing.html import html_record


class WriteResult(int):
    """The version that a write became, with what it did as `metrics`.

    It is the version in every respect: it compares, converts and prints as one.
    """

    metrics: Mapping[str, int]

    def __new__(cls, version: int, metrics: Mapping[str, int] | None = None) -> Self:
        made = super().__new__(cls, version)
        made.metrics = dict(metrics or {})
        return made

    @property
    def version(self) -> int:
        """The version, as a plain number."""
        return int(self)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return int(self), dict(self.metrics)

    def __repr__(self) -> str:
        return f"WriteResult({int(self)}, {self.metrics})"

    def _repr_html_(self) -> str:
        return html_record(f"version {int(self)}", self.metrics)

    def __str__(self) -> str:
        return int.__repr__(self)
