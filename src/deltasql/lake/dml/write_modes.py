"""Rows for a table by its name, whether it exists already or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from deltasql.commit.commit_logging import after_commit
from deltasql.data.arrow_schema import ArrowSchema, from_arrow, to_arrow
from deltasql.data.conform import as_arrow, conform
from deltasql.data.expressions.conditions import readable_condition
from deltasql.data.writing.fitting import must_satisfy
from deltasql.data.writing.properties import FileOptions, WriterProperties
from deltasql.errors import TableExistsError, ValidationError
from deltasql.lake import new_table
from deltasql.lake.dml.result import WriteResult
from deltasql.lake.dml.words import names_of, one_of
from deltasql.spec.actions import CommitInfo
from deltasql.spec.schema import StructType

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
        partition_by: Sequence[str] | str | None = None,
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        writer: WriterProperties | None = None,
        max_commit_retries: int | None = None,
        target_file_size: int | None = None,
    ) -> WriteResult:
        """Write rows to a table, created if it is absent; returns the version, with metrics.

        For an existing table, `mode` is `append`, `overwrite` (the rows of `where`, which delta-rs
        calls `predicate`), `error`, or `ignore`, which leaves it as it is. `partition_by`,
        `properties` and `description` are for a new table. With `app_id` and `app_version` a
        write happens once.
        """
        lake, rows = cast("Lake", self), None if data is None else as_arrow(data)
        where = one_of(where, predicate)
        _check(mode, where, app_id)
        if rows is None:
            raise ValidationError("there are no rows to write", remedy="pass a table, or a reader")
        how: dict[str, Any] = {
            "commit_metadata": commit_metadata,
            "writer": writer,
            "target_file_size": target_file_size,
        }
        asked = None if partition_by is None else names_of(partition_by)
        if lake.store.table(name) is None:
            if app_id is not None:
                # The rows get a commit of their own, which happens once.
                schema = new_table.schema_of(None, rows)
                lake.create_table(
                    name, schema, asked or (), properties, exists_ok=True, description=description
                )
            else:
                rows = new_table.rows_of(rows)
                try:
                    with _satisfying(rows, where) as data:
                        made = lake.create_table(
                            name, None, asked or (), properties,
                            data=data, description=description, **how,
                        )  # fmt: skip
                    return _first(made)
                except TableExistsError:
                    # Somebody else created it first, and a long stream can't be read again.
                    is_stream = mode != "ignore" and not isinstance(rows, pa.Table)
                    if mode in _ERROR or is_stream:
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
        how |= {"schema_mode": schema_mode, "app_id": app_id, "app_version": app_version}
        if max_commit_retries is not None:
            how["max_commit_retries"] = max_commit_retries
        if mode == "overwrite":
            return table.overwrite(rows, where, partition_by=asked, **how)
        _check_partitions(table, asked)
        return table.append(rows, **how)

    def create_or_replace_table(
        self,
        name: str,
        schema: pa.Schema | ArrowSchema | StructType | str | None = None,
        partition_by: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        *,
        data: Any = None,
        description: str | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> Table:
        """Create a table, or give an existing one this schema, these partitions and these rows.

        An existing table keeps its history, its place and its properties, and gets those given
        here by the same commit; a `description` is a commit of its own.
        """
        lake, rows = cast("Lake", self), new_table.rows_of(data)
        how: dict[str, Any] = {
            "commit_metadata": commit_metadata,
            "writer": writer,
            "target_file_size": target_file_size,
        }
        if lake.store.table(name) is None:
            try:
                return lake.create_table(
                    name, schema, partition_by, properties,
                    data=rows, description=description, **how,
                )  # fmt: skip
            except TableExistsError:
                # Somebody else created it first: theirs is replaced.
                is_stream = rows is not None and not isinstance(rows, pa.Table)
                if is_stream or lake.store.table(name) is None:
                    raise
        table = lake.table(name)
        new_table.replace_contents(
            table,
            _fitted(rows, new_table.schema_of(schema, rows)),
            names_of(partition_by),
            properties,
            options=FileOptions(writer, target_file_size),
            commit_metadata=commit_metadata,
        )
        if description is not None:
            table.set_comment(description)
        return table


@contextmanager
def _satisfying(rows: new_table.Rows | None, where: str | None) -> Iterator[Any]:
    """The first rows of a table, each of which must satisfy the overwrite's condition."""
    if rows is None or where is None:
        yield rows
        return
    schema = from_arrow(rows.schema, column_mapping=True)
    with readable_condition(schema, where).masking() as mask:
        yield must_satisfy(conform(rows, schema), mask, where)


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
    if app_id is not None and mode not in ("append", "overwrite"):
        raise ValidationError(
            f"app_id has no meaning in mode {mode!r}",
            cause="it makes a write happen once",
            remedy="leave it out",
        )


def _fitted(rows: new_table.Rows | None, schema: pa.Schema | StructType) -> new_table.Rows:
    """The rows, perhaps none, in the schema that a table gets with them."""
    is_arrow = isinstance(schema, pa.Schema)
    arrow = schema if is_arrow else to_arrow(schema)
    delta = from_arrow(schema, column_mapping=True) if is_arrow else schema
    empty = pa.Table.from_batches([], arrow)
    return empty if rows is None else conform(rows, delta, arrow_schema=arrow)


def _check_partitions(table: Table, partition_by: Sequence[str] | None) -> None:
    there = table.base().state.partition_columns
    if partition_by is not None and tuple(partition_by) != there:
        raise ValidationError(
            f"{table.name} is partitioned by {', '.join(there) or 'nothing'}",
            cause="an append can't change that",
            remedy="leave partition_by out, or overwrite the table with its schema",
        )


def _first(table: Table) -> WriteResult:
    """What the first version of a table says about its rows; nothing, if it can't be asked."""
    # The rows are committed: whoever was told otherwise would write them again.
    with after_commit("reading what it wrote", table.name):
        (change,) = table.changes(0, 0)
        (info,) = (item for item in change.actions if isinstance(item, CommitInfo))
        told = info.extra.get("operationMetrics") or {}
        return WriteResult(0, {key: int(value) for key, value in told.items()})
    return WriteResult(0)
