"""How rows are written: the options of `db.write`, checked before anything happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from deltasql.errors import ValidationError
from deltasql.lake.dml.words import one_of, schema_mode_of

MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows are written."""

    mode: str = "append"
    partition_by: Sequence[str] = ()
    replace_where: str | None = None
    merge_schema: bool = False
    overwrite_schema: bool = False
    dynamic: bool = False
    target_file_size: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    commit_metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise _wrong(f"there is no mode {self.mode!r}", f"use one of {', '.join(MODES)}")
        overwrites = self.mode == "overwrite"
        if not overwrites and (self.replace_where is not None or self.overwrite_schema):
            raise _wrong(
                "replace_where and overwrite_schema need rows to replace",
                'use them with mode="overwrite"',
            )
        if not overwrites and self.dynamic:
            raise _wrong(
                'partition_overwrite="dynamic" needs rows to replace', 'use mode="overwrite"'
            )
        if self.replace_where is not None and (self.dynamic or self.overwrite_schema):
            raise _wrong(
                "replace_where already says what is replaced",
                'leave overwrite_schema and partition_overwrite="dynamic" out',
            )
        if self.overwrite_schema and self.dynamic:
            raise _wrong(
                "a new schema replaces the whole table",
                'leave partition_overwrite="dynamic" out',
            )


def write_options(mode: str, given: Mapping[str, Any]) -> WriteOptions:
    """The options of a write, checked."""
    rest = dict(given)
    _translate(rest)
    overwrite = rest.pop("partition_overwrite", "static")
    if overwrite not in ("static", "dynamic"):
        raise ValidationError(
            f"partition_overwrite is {overwrite!r}", remedy='use "static" or "dynamic"'
        )
    names = rest.pop("partition_by", ()) or ()
    rest["partition_by"] = (names,) if isinstance(names, str) else tuple(names)
    try:
        return WriteOptions(mode=mode, dynamic=overwrite == "dynamic", **rest)
    except TypeError:
        strange = sorted(set(rest) - {item.name for item in fields(WriteOptions)})
        raise ValidationError(
            f"there is no option {', '.join(strange)}",
            remedy="see the parameters of db.write",
        ) from None


def _translate(rest: dict[str, Any]) -> None:
    """Translate the names of the Python API into Spark's: `where`, `schema_mode`."""
    condition = one_of(rest.pop("where", None), rest.get("replace_where"))
    if condition is not None:
        rest["replace_where"] = condition
    mode = rest.pop("schema_mode", None)
    if mode not in (None, "merge", "overwrite"):
        raise ValidationError(
            f"schema_mode {mode!r:.40} is unknown", remedy='use "merge" or "overwrite"'
        )
    found = schema_mode_of(
        mode,
        merge_schema=bool(rest.get("merge_schema")) and mode != "merge",
        overwrite_schema=bool(rest.get("overwrite_schema")) and mode != "overwrite",
    )
    if mode is not None:
        rest[f"{found}_schema"] = True


def _wrong(problem: str, remedy: str) -> ValidationError:
    return ValidationError(problem, cause="the options contradict each other", remedy=remedy)
