"""Which file column is which table column: by name, physical name or field id."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltasql.data.cast import cast_stored
from deltasql.data.reshape import ReshapeError, Rules
from deltasql.errors import LogFormatError
from deltasql.spec.schema import StructField

_FIELD_ID = b"PARQUET:field_id"


def column_rules(mode: str, fields: Sequence[pa.Field], path: str) -> Rules:
    """How the file's columns are matched with the table's under a mapping mode."""
    if mode == "none":
        return Rules(match=_match_names, cast=cast_stored)
    if mode == "name":
        return Rules(match=_match_physical, cast=cast_stored, by_name=False)
    if fields and all(_id_of(item) is None for item in fields):
        raise LogFormatError(
            f"the file {path} has no field ids",
            cause="the table maps its columns by id",
            remedy="rewrite the file with its field ids",
        )
    return Rules(match=_match_ids, cast=cast_stored, by_name=False)


def _match_names(
    fields: Sequence[pa.Field], wanted: Sequence[StructField], where: str
) -> list[int]:
    exact = {item.name: index for index, item in enumerate(fields)}
    folded: dict[str, list[int]] = {}
    for index, item in enumerate(fields):
        folded.setdefault(item.name.lower(), []).append(index)
    found = []
    for item in wanted:
        others = folded.get(item.name.lower(), [])
        if item.name not in exact and len(others) > 1:
            raise ReshapeError(_at(where, item), "the file has several columns of that name")
        found.append(exact.get(item.name, others[0] if others else -1))
    return _checked(found, wanted, where)


def _match_physical(
    fields: Sequence[pa.Field], wanted: Sequence[StructField], where: str
) -> list[int]:
    index = {item.name: position for position, item in enumerate(fields)}
    return _checked([index.get(item.physical_name, -1) for item in wanted], wanted, where)


def _match_ids(fields: Sequence[pa.Field], wanted: Sequence[StructField], where: str) -> list[int]:
    index = {_id_of(item): position for position, item in enumerate(fields)}
    index.pop(None, None)
    return _checked([index.get(item.field_id, -1) for item in wanted], wanted, where)


def _checked(found: list[int], wanted: Sequence[StructField], where: str) -> list[int]:
    for item, position in zip(wanted, found, strict=True):
        if position < 0 and not item.nullable:
            raise ReshapeError(_at(where, item), "the column is NOT NULL and the file lacks it")
    return found


def _id_of(item: pa.Field) -> int | None:
    raw = (item.metadata or {}).get(_FIELD_ID)
    return None if raw is None else int(raw)


def _at(where: str, item: StructField) -> str:
    return f"{where}.{item.name}" if where else item.name
