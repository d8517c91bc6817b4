"""`table.add_column`, `table.rename_column`, …: changes of columns that write no rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from deltasql.data.arrow_schema import (
    ArrowSchema,
    check_names,
    from_arrow,
    from_deltalake,
    schema_of,
)
from deltasql.data.conform import check_added
from deltasql.errors import ValidationError
from deltasql.lake.upkeep.alterations import commit, newest
from deltasql.lake.writing import new_id
from deltasql.maintenance.altering import columns as edits
from deltasql.maintenance.altering import rules, uses
from deltasql.maintenance.altering.ddl import parse_columns
from deltasql.maintenance.altering.types import changed_column, delta_type, rendered
from deltasql.spec.column_mapping import (
    assign_column_mapping,
    max_column_id,
)
from deltasql.spec.properties import (
    COLUMN_MAPPING_MODE,
    MAX_COLUMN_ID,
    TYPE_WIDENING,
    is_true,
)
from deltasql.spec.schema import Primitive, StructField, StructType, render_schema

if TYPE_CHECKING:
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table


class TableColumns:
    """Changes to columns that write no rows. Every method returns the version."""

    __slots__ = ()

    def add_column(
        self,
        name: str,
        type: pa.DataType | str,  # noqa: A002 - the field's own word
        *,
        nullable: bool = True,
        comment: str | None = None,
        first: bool = False,
        after: str | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Add a column, null in existing rows; `address.zip` adds it to a struct.

        In backticks, as in SQL, a name may have dots.
        """
        metadata = {} if comment is None else {"comment": comment}
        snapshot = newest(self)
        parent, last = edits.place_of(snapshot.state.schema, name)
        field = StructField(last, delta_type(type), nullable, metadata)
        return _add(self, snapshot, [field], parent, first=first, after=after, told=commit_metadata)

    def add_columns(
        self,
        schema: pa.Schema
        | ArrowSchema
        | StructType
        | Mapping[str, pa.DataType | str]
        | str
        | list[pa.Field],
        *,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Add several columns after the last one; a text lists them as in CREATE TABLE."""
        snapshot = newest(self)
        if isinstance(schema, str):
            schema = parse_columns(schema)
        schema = from_deltalake(schema) or schema
        # Polars' schema is a mapping as well.
        if isinstance(schema, ArrowSchema) or not isinstance(schema, StructType | Mapping):
            schema = schema_of(schema)
        if isinstance(schema, pa.Schema):
            mapped = snapshot.state.column_mapping != "none"
            schema = from_arrow(schema, column_mapping=mapped)
        if isinstance(schema, StructType):
            fields = list(schema.fields)
        else:
            fields = [StructField(name, delta_type(kind)) for name, kind in schema.items()]
        return _add(self, snapshot, fields, None, told=commit_metadata)

    def rename_column(
        self,
        name: str,
        new_name: str,
        *,
        enable_column_mapping: bool = False,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Give a column another name; the files stay as they are.

        This needs column mapping: with `enable_column_mapping` a table without it gets it first, in
        a commit of its own, and its readers must support it from then on.
        """

        new_name = edits.plain(new_name)

        def changed(found: Snapshot) -> StructType:
            uses.must_be_unused(found.state, name, "renamed")
            return edits.rename(found.state.schema, name, new_name)

        snapshot = _mapped(self, "renamed", changed, enable=enable_column_mapping)
        state = snapshot.state
        old = edits.plain(name).lower()
        partitions = tuple(
            new_name if part.lower() == old else part for part in state.metadata.partition_columns
        )
        metadata = replace(
            state.metadata,
            schema_string=render_schema(changed(snapshot)),
            partition_columns=partitions,
        )
        params = {"oldColumnPath": name, "newColumnPath": new_name}
        return commit(self, snapshot, metadata, "RENAME COLUMN", params, told=commit_metadata)

    def drop_column(
        self,
        name: str,
        *,
        enable_column_mapping: bool = False,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Remove a column; its values stay in the files but are no longer read.

        For `enable_column_mapping` see `rename_column`.
        """

        def changed(found: Snapshot) -> StructType:
            uses.must_not_shape_the_table(found.state, name, found.domains)
            uses.must_be_unused(found.state, name, "dropped")
            return edits.drop(found.state.schema, name)

        snapshot = _mapped(self, "dropped", changed, enable=enable_column_mapping)
        params = {"columns": [name]}
        return _commit_schema(
            self, snapshot, changed(snapshot), "DROP COLUMNS", params, told=commit_metadata
        )

    def reorder_columns(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, Any] | None = None
    ) -> int:
        """Put columns first, in this order; the others follow as they are."""
        snapshot = newest(self)
        schema = edits.reorder(snapshot.state.schema, names)
        return _commit_schema(
            self, snapshot, schema, "CHANGE COLUMN", {"order": list(names)}, told=commit_metadata
        )

    def set_nullable(
        self,
        column: str,
        nullable: bool = True,  # noqa: FBT001, FBT002
        *,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Allow nulls in a column; they can be forbidden only while the table has no files."""
        snapshot = newest(self)
        schema = edits.change(
            snapshot.state.schema, column, lambda item: replace(item, nullable=nullable)
        )
        return _commit_schema(
            self,
            snapshot,
            schema,
            "CHANGE COLUMN",
            changed_column(schema, column),
            told=commit_metadata,
        )

    def set_comment(
        self,
        comment: str | None,
        column: str | None = None,
        *,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Describe a column, or the table itself; None removes the comment."""
        snapshot = newest(self)
        if column is None:
            metadata = replace(snapshot.metadata, description=comment)
            return commit(
                self, snapshot, metadata, "CHANGE TABLE", {"comment": comment}, told=commit_metadata
            )
        schema = edits.describe(snapshot.state.schema, column, comment)
        return _commit_schema(
            self,
            snapshot,
            schema,
            "CHANGE COLUMN",
            changed_column(schema, column),
            told=commit_metadata,
        )

    def widen_type(
        self,
        column: str,
        type: pa.DataType | str,  # noqa: A002 - the field's own word
        *,
        enable_type_widening: bool = False,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Give a column a wider type, such as long for integer; the files stay as they are.

        With `enable_type_widening` a table without that feature gets it in the same commit, and its
        readers must support it from then on.
        """
        snapshot = newest(self)
        state = snapshot.state
        configuration = dict(state.properties)
        if not is_true(configuration, TYPE_WIDENING):
            if not enable_type_widening:
                raise ValidationError(
                    f"without type widening {column!r:.80} can't change its type",
                    cause="readers must know that older files have the narrower type",
                    remedy="pass enable_type_widening=True; readers must then support the feature",
                )
            configuration[TYPE_WIDENING] = "true"
        kind = delta_type(type)
        if not isinstance(kind, Primitive):
            raise ValidationError(
                f"{type} is not a scalar type", remedy="only scalar types can be widened"
            )
        schema = edits.widen(state.schema, column, kind)
        metadata = replace(
            state.metadata, schema_string=render_schema(schema), configuration=configuration
        )
        return commit(
            self,
            snapshot,
            metadata,
            "CHANGE COLUMN",
            changed_column(schema, column),
            told=commit_metadata,
        )


def _add(
    target: TableColumns,
    snapshot: Snapshot,
    fields: Sequence[StructField],
    parent: edits.Path | None,
    *,
    first: bool = False,
    after: str | None = None,
    told: Mapping[str, Any] | None = None,
) -> int:
    state = snapshot.state
    mapped = state.column_mapping != "none"
    check_names((item.name for item in fields), column_mapping=mapped)
    check_added(fields)
    schema = edits.add(state.schema, parent, fields, first=first, after=after)
    names = [
        {"column": {"name": item.name, "type": rendered(item), "nullable": item.nullable}}
        for item in fields
    ]
    return _commit_schema(target, snapshot, schema, "ADD COLUMNS", {"columns": names}, told=told)


def _commit_schema(
    target: TableColumns,
    snapshot: Snapshot,
    schema: StructType,
    operation: str,
    params: Mapping[str, Any],
    *,
    told: Mapping[str, Any] | None = None,
) -> int:
    state = snapshot.state
    configuration = dict(state.properties)
    if state.column_mapping != "none":
        schema, highest = assign_column_mapping(
            schema, highest=max_column_id(configuration), new_id=new_id
        )
        configuration[MAX_COLUMN_ID] = str(highest)
    metadata = replace(
        state.metadata, schema_string=render_schema(schema), configuration=configuration
    )
    return commit(target, snapshot, metadata, operation, params, told=told)


def _mapped(
    target: TableColumns, doing: str, change: Callable[[Snapshot], object], *, enable: bool
) -> Snapshot:
    """A snapshot with column mapping, turned on if the caller allows it and the change is possible,
    since no commit turns it off again.
    """
    snapshot = newest(target)
    if enable and snapshot.state.column_mapping == "none":
        change(snapshot)
        cast("Table", target).set_properties({COLUMN_MAPPING_MODE: "name"})
        snapshot = newest(target)
    rules.must_be_mapped(snapshot.state, doing)
    return snapshot
