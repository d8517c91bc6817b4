"""The functions of arrays and maps, with Spark's meaning."""

from __future__ import annotations

from deltasql.data.expressions import types
from deltasql.data.expressions.arguments import Arguments, Render, must_have, unsupported
from deltasql.data.expressions.engine import quoted


def _size(given: Arguments) -> str:
    must_have(given, "size", 1)
    return f"CAST({_count(given, 'size')} AS INTEGER)"


def _count(given: Arguments, name: str) -> str:
    sql, kind = given.sql[0], given.kinds[0]
    if is_array(kind):
        return f"len({sql})"
    if is_map(kind):
        return f"cardinality({sql})"
    raise unsupported(f"{name} of a {kind.lower():.40}", "give an array or a map")


def _contains(given: Arguments) -> str:
    must_have(given, "array_contains", 2)
    items, item = given.sql
    if not is_array(given.kinds[0]):
        raise unsupported(f"array_contains of a {given.kinds[0].lower():.40}", "give an array")
    element = given.kinds[0].removesuffix("[]")
    if given.kinds[1] != element and not {element, given.kinds[1]} <= types.INTEGERS:
        raise unsupported(
            f"array_contains of {element.lower():.40} and {given.kinds[1].lower():.40}",
            "cast the value to the type of the elements",
        )
    # A null among the elements may be the value; DuckDB says that it is not.
    unknown = f"{items} IS NULL OR {item} IS NULL"
    has_null = f"len({items}) <> list_count({items})"
    return (
        f"CASE WHEN {unknown} THEN NULL WHEN list_contains({items}, {item}) THEN true "
        f"WHEN {has_null} THEN NULL ELSE false END"
    )


def element(given: Arguments) -> str:
    """`array[0]`, `map['key']` and `struct['field']`: places count from 0, and must exist."""
    (sql, at), (kind, at_kind) = given.sql, given.kinds
    if is_array(kind) and at_kind in types.DAYS:
        outside = f"{at} < 0 OR {at} >= len({sql})"
        problem = "error('the array has no element at this place')"
        return f"CASE WHEN {outside} THEN {problem} ELSE {sql}[CAST({at} AS BIGINT) + 1] END"
    if is_map(kind) and at_kind == "VARCHAR" and kind.startswith("MAP(VARCHAR,"):
        return f"map_extract_value({sql}, {at})"
    if kind.startswith("STRUCT") and not is_array(kind) and at.startswith("'"):
        return f"struct_extract({sql}, {at})"
    raise unsupported(
        f"an element of a {kind.lower():.40} by a {at_kind.lower().strip(quoted(''))}",
        "arrays take an int, maps with keys of type string take a text",
    )


def is_array(kind: str) -> bool:
    """Whether a DuckDB type is a list."""
    return kind.endswith("[]")


def is_map(kind: str) -> bool:
    """Whether a DuckDB type is a map."""
    return kind.startswith("MAP(") and not is_array(kind)


NESTED_FUNCTIONS: dict[str, Render] = {
    "array_contains": _contains,
    "cardinality": _size,
    "size": _size,
}
