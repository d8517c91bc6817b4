"""Rows in a list as the judge of deletes, updates and merges: DuckDB evaluates them one by one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb

from tests.row_operations import expressions, where

Row = tuple[Any, ...]
NAMES = ("id", "p", "v")
_KINDS = ("INT", "INT", "VARCHAR")


class DoubledError(Exception):
    """A row of the target matches several rows of the source."""


class Rows:
    """A table as a list of rows, and its changes since it was filled."""

    def __init__(self, rows: list[Row]) -> None:
        self._connection = duckdb.connect()
        self._known: dict[Any, Any] = {}
        self.rows = list(rows)
        self.changes: Counter[Row] = Counter()

    def run(self, operation: Any) -> dict[str, int]:
        """Change the rows; returns what a result has to say of them."""
        match operation:
            case ("delete", condition):
                return self._change(lambda row: self._first([("delete", condition, {})], row), {})
            case ("update", condition, values):
                return self._change(
                    lambda row: self._first([("update", condition, values)], row), {}
                )
            case ("merge", merge):
                return self._merge(merge)
        raise AssertionError(operation)

    def _change(self, outcome: Any, counts: dict[str, int]) -> dict[str, int]:
        found, changes = [], Counter[Row]()
        for row in self.rows:
            verb, new = outcome(row)
            if verb == "delete":
                changes[(*row, "delete")] += 1
            elif verb == "update":
                changes[(*row, "update_preimage")] += 1
                changes[(*new, "update_postimage")] += 1
            if verb:
                counts[verb] = counts.get(verb, 0) + 1
            if verb != "delete":
                found.append(new or row)
        self.rows = found
        self.changes += changes
        return counts

    def _first(self, clauses: Any, row: Row, other: Row | None = None, alias: str = "") -> Any:
        """The verb for a row of the target, and what becomes of it."""
        for verb, condition, values in clauses:
            if self._holds(where(condition, "t."), row, other):
                if verb == "update all":
                    return "update", other
                given = expressions(values, alias or "t.")
                return verb, self._set(row, given, row, other) if verb == "update" else None
        return None, None

    def _merge(self, merge: Any) -> dict[str, int]:
        source, before = merge["source"], list(self.rows)
        pairs = [
            [other for other in source if self._holds(merge["on"], row, other)] for row in before
        ]
        only_deletes = [(verb, where) for verb, where, _ in merge["matched"]] == [("delete", None)]
        changes = merge["matched"] or merge["lost"]
        if changes and not only_deletes and any(len(found) > 1 for found in pairs):
            raise DoubledError
        partners = iter(pairs)

        def outcome(row: Row) -> Any:
            found = next(partners)
            if found:
                return self._first(merge["matched"], row, found[0], "s.")
            return self._first(merge["lost"], row)

        absent = [
            other
            for other in source
            if not any(self._holds(merge["on"], row, other) for row in before)
        ]
        counts = self._change(outcome, {})
        for other in absent:
            for verb, condition, values in merge["absent"]:
                if self._holds(where(condition, "s."), None, other):
                    new = other
                    if verb == "insert":
                        new = self._set((None,) * 3, expressions(values, "s."), None, other)
                    self.rows.append(new)
                    self.changes[(*new, "insert")] += 1
                    counts["insert"] = counts.get("insert", 0) + 1
                    break
        return counts

    def _set(self, row: Row, given: Any, target: Row | None, source: Row | None) -> Row:
        return tuple(
            self._value(given[name], target, source) if name in given else old
            for name, old in zip(NAMES, row, strict=True)
        )

    def _holds(self, condition: str | None, target: Row | None, source: Row | None) -> bool:
        return condition is None or bool(self._value(condition, target, source))

    def _value(self, expression: str, target: Row | None, source: Row | None) -> Any:
        key = expression, target, source
        if key not in self._known:
            sides = [
                (alias, row) for alias, row in (("t", target), ("s", source)) if row is not None
            ]
            shapes = [
                "(SELECT " + ", ".join(f"?::{k} AS {n}" for n, k in zip(NAMES, _KINDS, strict=True))
                + f") AS {alias}"
                for alias, _ in sides
            ]  # fmt: skip
            text = expression.replace("<=>", "IS NOT DISTINCT FROM").replace(
                "concat(", "our_concat("
            )
            self._connection.execute("CREATE OR REPLACE MACRO our_concat(a, b) AS a || b")
            parameters = [value for _, row in sides for value in row]
            found = self._connection.execute(f"SELECT {text} FROM {', '.join(shapes)}", parameters)
            self._known[key] = found.fetchall()[0][0]
        return self._known[key]
