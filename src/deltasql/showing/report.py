"""What an operation did, in short: fields that are empty, zero or false are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from reprlib import Repr
from typing import Any, Final

from deltasql.showing.html import Listing, html_record

_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxdict = 12


class Report:
    """A base for dataclasses that calls return; those with `tables` show a row for each."""

    __slots__ = ()

    def __repr__(self) -> str:
        tables = _tables(self)
        if tables:
            return f"{type(self).__name__}:\n{tables!r}"
        told = ", ".join(f"{name}={_short(value)}" for name, value in _said(self).items())
        return f"{type(self).__name__}({told})"

    def _repr_html_(self) -> str:
        tables = _tables(self)
        if tables:
            return tables._repr_html_()
        flat: dict[str, Any] = {}
        for name, value in _said(self).items():
            # Metrics are as much worth a line as fields.
            is_flat = not isinstance(value, Mapping)
            flat |= {name.replace("_", " "): value} if is_flat else value
        return html_record(type(self).__name__, flat)


def _tables(report: Any) -> Listing[Any]:
    found = getattr(report, "tables", ())
    return Listing(found.values() if isinstance(found, Mapping) else found)


def _said(report: Any) -> dict[str, Any]:
    found = {item.name: getattr(report, item.name) for item in fields(report)}
    verdict = {"ok": report.ok} if hasattr(report, "ok") else {}
    return verdict | _filled(found)


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: _filled(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    return {name: value for name, value in kept.items() if value or name == "version"}


def _short(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, timedelta):
        return str(value).removesuffix(", 0:00:00")
    return _SHORT.repr(value)
