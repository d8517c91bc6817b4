"""`table.add_column`, `table.set_properties`, …: changes that write no rows, one commit each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from deltasql.data.arrow_schema import check_names, from_arrow, schema_of
from deltasql.data.conform import check_added
from deltasql.errors import ValidationError
from deltasql.lake.writing import new_id
from deltasql.log.conflict import Reads
from deltasql.maintenance.altering import columns as edits
from deltasql.maintenance.altering import rules, uses
from deltasql.maintenance.altering.ddl import parse_columns
from deltasql.maintenance.altering.properties import with_properties
from deltasql.maintenance.altering.types import changed_column, delta_type, rendered
from deltasql.spec import codec
from deltasql.spec.actions import Action, Metadata
from deltasql.spec.column_mapping import (
    assign_column_mapping,
    max_column_id,
)
from deltasql.spec.properties import (
    COLUMN_MAPPING_MODE,
    FENCE,
    MAX_COLUMN_ID,
    TYPE_WIDENING,
    canonical,
    is_true,
)
from deltasql.spec.protocol import upgraded
from deltasql.spec.schema import Primitive, StructField, StructType, parse_schema, render_schema

if TYPE_CHECKING:
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table


class TableAlter:
    """Changes to a table that write no rows. Every method returns the version."""

    __slots__ = ()

    # --- columns ------------------------------------------------------------------------

    def add_column(
        self,
        name: str,
        type: pa.DataType | str,  # noqa: A002 - the field's own word
        *,
        nullable: bool = True,
        comment: str | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> int:
        """Add a column, null in existing rows; `address.zip` adds it to a struct."""
        metadata = {} if comment is None else {"comment": comment}
        parent, _, last = name.rpartition(".")
        snapshot = _snapshot(self)
        schema = snapshot.state.schema
        if parent and schema.field(edits.path_of(schema, parent)[0]) is None:
            parent, last = "", name
        field = StructField(last, delta_type(type), nullable, metadata)
        return _add(self, snapshot, [field], parent or None, first=first, after=after)

    def add_columns(
        self,
        schema: pa.Schema | StructType | Mapping[str, pa.DataType | str] | str | list[pa.Field],
    ) -> int:
        """Add several columns after the last one; a text lists them as in CREATE TABLE."""
        snapshot = _snapshot(self)
        if isinstance(schema, str):
            schema = parse_columns(schema)
        if not isinstance(schema, pa.Schema | StructType | Mapping):
            schema = schema_of(schema)
        if isinstance(schema, pa.Schema):
            mapped = snapshot.state.column_mapping != "none"
            schema = from_arrow(schema, column_mapping=mapped)
        if isinstance(schema, StructType):
            fields = list(schema.fields)
        else:
            fields = [StructField(name, delta_type(kind)) for name, kind in schema.items()]
        return _add(self, snapshot, fields, None)

    def rename_column(
        self, name: str, new_name: str, *, enable_column_mapping: bool = False
    ) -> int:
        """Give a column another name; the files stay as they are.

        This needs column mapping: with `enable_column_mapping` a table without it gets it first, in
        a commit of its own, and its readers must support it from then on.
        """

        def changed(found: Snapshot) -> StructType:
            uses.must_be_unused(found.state, name, "renamed")
            return edits.rename(found.state.schema, name, new_name)

        snapshot = _mapped(self, "renamed", changed, enable=enable_column_mapping)
        state = snapshot.state
        partitions = tuple(
            new_name if part.lower() == name.lower() else part
            for part in state.metadata.partition_columns
        )
        metadata = replace(
            state.metadata,
            schema_string=render_schema(changed(snapshot)),
            partition_columns=partitions,
        )
        params = {"oldColumnPath": name, "newColumnPath": new_name}
        return _commit(self, snapshot, metadata, "RENAME COLUMN", params)

    def drop_column(self, name: str, *, enable_column_mapping: bool = False) -> int:
        """Remove a column; its values stay in the files but are no longer read.

        For `enable_column_mapping` see `rename_column`.
        """

        def changed(found: Snapshot) -> StructType:
            uses.must_not_shape_the_table(found.state, name, found.domains)
            uses.must_be_unused(found.state, name, "dropped")
            return edits.drop(found.state.schema, name)

        snapshot = _mapped(self, "dropped", changed, enable=enable_column_mapping)
        params = {"columns": [name]}
        return _commit_schema(self, snapshot, changed(snapshot), "DROP COLUMNS", params)

    def reorder_columns(self, names: Sequence[str]) -> int:
        """Put columns first, in this order; the others follow as they are."""
        snapshot = _snapshot(self)
        schema = edits.reorder(snapshot.state.schema, names)
        return _commit_schema(self, snapshot, schema, "CHANGE COLUMN", {"order": list(names)})

    def set_nullable(self, column: str, nullable: bool = True) -> int:  # noqa: FBT001, FBT002
        """Allow nulls in a column; they can be forbidden only while the table has no files."""
        snapshot = _snapshot(self)
        schema = edits.change(
            snapshot.state.schema, column, lambda item: replace(item, nullable=nullable)
        )
        return _commit_schema(
            self, snapshot, schema, "CHANGE COLUMN", changed_column(schema, column)
        )

    def set_comment(self, comment: str | None, column: str | None = None) -> int:
        """Describe a column, or the table itself; None removes the comment."""
        snapshot = _snapshot(self)
        if column is None:
            metadata = replace(snapshot.metadata, description=comment)
            return _commit(self, snapshot, metadata, "CHANGE TABLE", {"comment": comment})
        schema = edits.describe(snapshot.state.schema, column, comment)
        return _commit_schema(
            self, snapshot, schema, "CHANGE COLUMN", changed_column(schema, column)
        )

    def widen_type(
        self,
        column: str,
        type: pa.DataType | str,  # noqa: A002 - the field's own word
        *,
        enable_type_widening: bool = False,
    ) -> int:
        """Give a column a wider type, such as long for integer; the files stay as they are.

        With `enable_type_widening` a table without that feature gets it in the same commit, and its
        readers must support it from then on.
        """
        snapshot = _snapshot(self)
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
        return _commit(self, snapshot, metadata, "CHANGE COLUMN", changed_column(schema, column))

    # --- properties, constraints, features ------------------------------------------------

    def set_properties(self, properties: Mapping[str, str]) -> int:
        """Set table properties; the protocol is raised if one of them requires it."""
        snapshot = _snapshot(self)
        _, actions = with_properties(snapshot.state, snapshot.metadata, properties, new_id=new_id)
        params = {"properties": dict(canonical(properties))}
        return _send(self, snapshot, actions, "SET TBLPROPERTIES", params, Reads.nothing())

    def unset_properties(self, keys: Iterable[str], *, if_exists: bool = False) -> int:
        """Remove table properties."""
        snapshot = _snapshot(self)
        wanted = list(canonical(dict.fromkeys(keys, "")))
        rules.must_be_plain(dict.fromkeys(wanted, ""))
        missing = [key for key in wanted if key not in snapshot.properties]
        if missing and not if_exists:
            raise ValidationError(
                f"the table has no property {missing[0]!r:.120}",
                remedy="leave it out, or pass if_exists=True",
            )
        left = {key: value for key, value in snapshot.properties.items() if key not in wanted}
        if FENCE in wanted:
            rules.fence_must_stay(snapshot.state, left)
        metadata = replace(snapshot.metadata, configuration=left)
        params = {"properties": wanted, "ifExists": if_exists}
        return _commit(self, snapshot, metadata, "UNSET TBLPROPERTIES", params)

    def add_constraint(self, name: str, expression: str) -> int:
        """Add a CHECK constraint, after checking that every existing row satisfies it."""
        snapshot = _snapshot(self)
        key = rules.constraint_key(name)
        if key in snapshot.properties:
            raise ValidationError(
                f"there is already a constraint {name}",
                cause=f"it is {snapshot.properties[key]:.200}",
                remedy="drop it first",
            )
        # As in Delta, a row for which it is null breaks a constraint.
        kept = snapshot.count(expression)
        rules.must_hold(name, expression, rows=snapshot.count(), kept=kept)
        configuration = {**snapshot.properties, key: expression}
        metadata = replace(snapshot.metadata, configuration=configuration)
        params = {"name": name, "expr": expression}
        # Rows that others add meanwhile were not checked.
        return _commit(self, snapshot, metadata, "ADD CONSTRAINT", params, reads=Reads.all())

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> int:
        """Remove a CHECK constraint."""
        snapshot = _snapshot(self)
        key = rules.constraint_key(name)
        if key not in snapshot.properties:
            if if_exists:
                return snapshot.version
            raise ValidationError(
                f"there is no constraint {name}",
                remedy="table.snapshot().properties lists them, or pass if_exists=True",
            )
        left = {known: text for known, text in snapshot.properties.items() if known != key}
        metadata = replace(snapshot.metadata, configuration=left)
        params = {"name": name, "expr": snapshot.properties[key]}
        return _commit(self, snapshot, metadata, "DROP CONSTRAINT", params)

    def enable_feature(self, name: str) -> int:
        """Add a feature to the table's protocol, with those that it depends on."""
        snapshot = _snapshot(self)
        feature = rules.known_feature(name)
        protocol = upgraded(
            snapshot.protocol, snapshot.state.schema, snapshot.properties, also=[feature]
        )
        if protocol is None:
            return snapshot.version
        params = {"newProtocol": codec.to_wire(protocol)["protocol"]}
        return _send(self, snapshot, [protocol], "UPGRADE PROTOCOL", params, Reads.nothing())


# --- schemas ------------------------------------------------------------------------------


def _add(
    target: TableAlter,
    snapshot: Snapshot,
    fields: Sequence[StructField],
    parent: str | None,
    *,
    first: bool = False,
    after: str | None = None,
) -> int:
    state = snapshot.state
    mapped = state.column_mapping != "none"
    check_names((item.name for item in fields), column_mapping=mapped)
    check_added(fields)
    schema = edits.add(state.schema, parent, fields, first=first, after=after)
    told = [
        {"column": {"name": item.name, "type": rendered(item), "nullable": item.nullable}}
        for item in fields
    ]
    return _commit_schema(target, snapshot, schema, "ADD COLUMNS", {"columns": told})


def _commit_schema(
    target: TableAlter,
    snapshot: Snapshot,
    schema: StructType,
    operation: str,
    params: Mapping[str, Any],
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
    return _commit(target, snapshot, metadata, operation, params)


def _mapped(
    target: TableAlter, doing: str, change: Callable[[Snapshot], object], *, enable: bool
) -> Snapshot:
    """A snapshot with column mapping, turned on if the caller allows it and the change is possible,
    since no commit turns it off again.
    """
    snapshot = _snapshot(target)
    if enable and snapshot.state.column_mapping == "none":
        change(snapshot)
        target.set_properties({COLUMN_MAPPING_MODE: "name"})
        snapshot = _snapshot(target)
    rules.must_be_mapped(snapshot.state, doing)
    return snapshot


# --- commits ------------------------------------------------------------------------------


def _snapshot(target: TableAlter) -> Snapshot:
    return cast("Table", target).base()


def _commit(
    target: TableAlter,
    snapshot: Snapshot,
    metadata: Metadata,
    operation: str,
    params: Mapping[str, Any],
    *,
    reads: Reads | None = None,
    asked: Mapping[str, str] | None = None,
) -> int:
    """Commit new metadata and the protocol it needs, or that the properties `asked` for need."""
    schema = parse_schema(metadata.schema_string)
    needed = upgraded(snapshot.protocol, schema, asked or metadata.configuration)
    actions: list[Action] = [] if metadata == snapshot.metadata else [metadata]
    actions += [] if needed is None else [needed]
    return _send(target, snapshot, actions, operation, params, reads or Reads.nothing())


def _send(
    target: TableAlter,
    snapshot: Snapshot,
    actions: Sequence[Action],
    operation: str,
    params: Mapping[str, Any],
    reads: Reads,
) -> int:
    if not actions:
        return snapshot.version
    table = cast("Table", target)
    request = table.request(
        actions,
        operation=operation,
        operation_params=params,
        reads=reads,
        read_version=snapshot.version,
    )
    done = table.send(request)
    table.mirror_commit(request, done)
    return done.version
