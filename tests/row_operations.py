"""Made-up deletes, updates and merges of small tables, for whoever runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

Row: TypeAlias = tuple[Any, ...]
ARROW = pa.schema([("id", pa.int32()), ("p", pa.int32()), ("v", pa.string())])
CONDITIONS = (
    "{t}id = 3", "{t}p = 1", "{t}p IS NULL", "{t}v > 'b'", "{t}id < 4 AND {t}p = 1",
    "{t}id IS NULL OR {t}v = 'a'", "NOT {t}p = 2", "{t}id IN (1, 2, NULL)", "length({t}v) = 1",
    "{t}id % 2 = 0", "{t}id BETWEEN 2 AND 4", "{t}v <=> 'c'",
)  # fmt: skip
SETS = (
    {"v": "concat({t}v, 'x')"},
    {"p": "{t}p + 1"},
    {"id": "{t}id + 1", "v": "null"},
    {"p": "null", "v": "'set'"},
    {"id": "coalesce({t}id, 0)"},
)
# What a merge is on, and whether a row of the table can match any row of a source by that.
MAY_MATCH: Mapping[str, Callable[[Row], bool]] = {
    "t.id = s.id": lambda row: row[0] is not None,
    "t.id = s.id AND t.p = s.p": lambda row: None not in row[:2],
    "t.id = s.id AND t.p = 1": lambda row: row[0] is not None and row[1] == 1,
    "t.id <=> s.id": lambda row: True,  # noqa: ARG005
    "t.id = s.id AND s.v = 'a'": lambda row: row[0] is not None,
    "t.p = s.p AND t.id > s.id": lambda row: None not in row[:2],
    "t.id = s.id + 1 AND t.v <> s.v": lambda row: None not in (row[0], row[2]),
}
ONS = tuple(MAY_MATCH)

row = st.tuples(
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 2),
    st.sampled_from((None, "a", "b", "c")),
)
some = st.none() | st.sampled_from(CONDITIONS)


def _clauses(verbs):
    """Some with a condition, and perhaps one without, which comes last."""
    conditional = st.tuples(
        st.sampled_from(verbs), st.sampled_from(CONDITIONS), st.sampled_from(SETS)
    )
    last = st.tuples(st.sampled_from(verbs), st.none(), st.sampled_from(SETS))
    lists = st.lists(conditional, max_size=2)
    return st.builds(lambda found, end: [*found, *([end] if end else [])], lists, st.none() | last)


merges = st.fixed_dictionaries(
    {
        "on": st.sampled_from(ONS),
        # Mostly unique, sometimes not: then both refuse.
        "source": st.lists(row, max_size=6, unique_by=lambda item: item[0])
        | st.lists(row, max_size=6),
        "matched": _clauses(("update", "update all", "delete")),
        "absent": _clauses(("insert", "insert all")),
        "lost": st.just([]) | _clauses(("update", "delete")),
    }
).filter(lambda item: item["matched"] or item["absent"] or item["lost"])
operations = st.one_of(
    st.tuples(st.just("delete"), some),
    st.tuples(st.just("update"), some, st.sampled_from(SETS)),
    st.tuples(st.just("merge"), merges),
    st.tuples(st.just("merge"), merges),
)


def expressions(given, alias=""):
    return {key: value.format(t=alias) for key, value in given.items()}


def where(condition, alias):
    return condition and condition.format(t=alias)


def run_from_arrow(table, operation):
    match operation:
        case ("delete", condition):
            return table.delete(where(condition, ""))
        case ("update", condition, values):
            return table.update(where(condition, ""), expressions(values))
        case ("merge", merge):
            builder = table.merge(
                batch(merge["source"]), merge["on"], source_alias="s", target_alias="t"
            )
            return built(builder, merge).execute()
    raise AssertionError(operation)


def batch(given) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(ARROW.names, row, strict=True)) for row in given], schema=ARROW
    )


def built(builder, merge):
    for verb, condition, values in merge["matched"]:
        holds = where(condition, "t.")
        if verb == "update":
            builder = builder.whenMatchedUpdate(holds, expressions(values, "s."))
        elif verb == "delete":
            builder = builder.whenMatchedDelete(holds)
        else:
            builder = builder.whenMatchedUpdateAll(holds)
    for verb, condition, values in merge["absent"]:
        holds = where(condition, "s.")
        if verb == "insert":
            builder = builder.whenNotMatchedInsert(holds, expressions(values, "s."))
        else:
            builder = builder.whenNotMatchedInsertAll(holds)
    for verb, condition, values in merge["lost"]:
        holds = where(condition, "t.")
        if verb == "update":
            builder = builder.whenNotMatchedBySourceUpdate(holds, expressions(values, "t."))
        else:
            builder = builder.whenNotMatchedBySourceDelete(holds)
    return builder
