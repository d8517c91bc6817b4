"""`lake.write`: rows for a table by its name, whether it exists already or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from deltasql.data.writing.properties import WriterProperties
from deltasql.errors import TableExistsError, ValidationError
from deltasql.lake import new_table
from deltasql.lake.dml.result import WriteResult
from deltasql.lake.dml.words import one_of
from deltasql.spec.actions import CommitInfo

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.table import Table

_ERROR = ("error", "errorifexists")
_MODES = ("append", "overwrite", "ignore", *_ERROR)


class LakeWrites:
    """Writing to tables that may be new."""

    def write(  # noqa: PLR0913 - the public names
        self,
        data: Any,
        name: str,
        mode: str = "append",
        *,
        where: str | None = None,
        predicate: str | None = None,
        schema_mode: str | None = None,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> WriteResult:
        """Write rows to a table, created if it is absent; returns the version, with metrics.

        For an existing table, `mode` is `append`, `overwrite` (the rows of `where`, which delta-rs
        calls `predicate`), `error`, or `ignore`, which leaves it as it is. `partition_by` and
        `properties` are for a new table. With `app_id` and `app_version` an append happens once.
        """
        lake, rows = cast("Lake", self), new_table.rows_of(data)
        where = one_of(where, predicate)
        _check(mode, where, app_id)
        if rows is None:
            raise ValidationError("there are no rows to write", remedy="pass a table, or a reader")
        how: dict[str, Any] = {
            "commit_metadata": commit_metadata,
            "writer": writer,
            "target_file_size": target_file_size,
        }
        by = tuple(partition_by or ())
        if lake.store.table(name) is None:
            if app_id is not None:
                # The rows get a commit of their own, which happens once.
                schema = new_table.schema_of(None, rows)
                lake.create_table(name, schema, by, properties, exists_ok=True)
            else:
                try:
                    made = lake.create_table(name, None, by, properties, data=rows, **how)
                    return _first(made)
                except TableExistsError:
                    # Somebody else created it first.
                    if mode in _ERROR:
                        raise
        elif mode in _ERROR:
            raise TableExistsError(
                f"there is already a table {name}",
                cause=f"the mode is {mode!r}",
                remedy='choose another name, or mode="append" or "overwrite"',
            )
        table = lake.table(name)
        if mode == "ignore":
            return WriteResult(table.version)
        if mode == "overwrite":
            return table.overwrite(
                rows, where, schema_mode=schema_mode, partition_by=partition_by, **how
            )
        _check_partitions(table, partition_by)
        return table.append(
            rows, schema_mode=schema_mode, app_id=app_id, app_version=app_version, **how
        )


def _check(mode: str, where: str | None, app_id: str | None) -> None:
    if mode not in _MODES:
        raise ValidationError(
            f"mode {mode!r:.40} is unknown", remedy=f"use one of {', '.join(_MODES[:4])}"
        )
    if where is not None and mode != "overwrite":
        raise ValidationError(
            f"a condition has no meaning in mode {mode!r}",
            cause="it says which rows are overwritten",
            remedy='pass mode="overwrite", or leave the condition out',
        )
    if app_id is not None and mode != "append":
        raise ValidationError(
            f"app_id has no meaning in mode {mode!r}",
            cause="it makes an append happen once",
            remedy="leave it out",
        )


def _check_partitions(table: Table, partition_by: Sequence[str] | None) -> None:
    there = table.base().state.partition_columns
    if partition_by is not None and tuple(partition_by) != there:
        raise ValidationError(
            f"{table.name} is partitioned by {', '.join(there) or 'nothing'}",
            cause="an append can't change that",
            remedy="leave partition_by out, or overwrite the table with its schema",
        )


def _first(table: Table) -> WriteResult:
    """What the first version of a table says about its rows."""
    (change,) = table.changes(0, 0)
    (info,) = (item for item in change.actions if isinstance(item, CommitInfo))
    told = info.extra.get("operationMetrics") or {}
    return WriteResult(0, {key: int(value) for key, value in told.items()})
