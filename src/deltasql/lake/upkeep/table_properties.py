"""`table.set_properties`, `table.add_constraint`, …: what holds for the whole of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltasql.errors import ValidationError
from deltasql.lake.upkeep.alterations import commit, newest, send
from deltasql.lake.writing import new_id
from deltasql.log.conflict import Reads
from deltasql.maintenance.altering import rules
from deltasql.maintenance.altering.properties import with_properties
from deltasql.spec import codec
from deltasql.spec.properties import (
    FENCE,
    canonical,
)
from deltasql.spec.protocol import upgraded

if TYPE_CHECKING:
    pass


class TableProperties:
    """Changes of properties, constraints and features. Every method returns the version."""

    __slots__ = ()

    def set_properties(
        self, properties: Mapping[str, str], *, commit_metadata: Mapping[str, Any] | None = None
    ) -> int:
        """Set table properties; the protocol is raised if one of them requires it."""
        snapshot = newest(self)
        _, actions = with_properties(snapshot.state, snapshot.metadata, properties, new_id=new_id)
        params = {"properties": dict(canonical(properties))}
        return send(
            self,
            snapshot,
            actions,
            "SET TBLPROPERTIES",
            params,
            Reads.nothing(),
            told=commit_metadata,
        )

    def unset_properties(
        self,
        keys: Iterable[str],
        *,
        if_exists: bool = False,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Remove table properties."""
        snapshot = newest(self)
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
        return commit(self, snapshot, metadata, "UNSET TBLPROPERTIES", params, told=commit_metadata)

    def add_constraint(
        self, name: str, expression: str, *, commit_metadata: Mapping[str, Any] | None = None
    ) -> int:
        """Add a CHECK constraint, after checking that every existing row satisfies it."""
        snapshot = newest(self)
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
        return commit(
            self,
            snapshot,
            metadata,
            "ADD CONSTRAINT",
            params,
            reads=Reads.all(),
            told=commit_metadata,
        )

    def drop_constraint(
        self,
        name: str,
        *,
        if_exists: bool = False,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Remove a CHECK constraint."""
        snapshot = newest(self)
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
        return commit(self, snapshot, metadata, "DROP CONSTRAINT", params, told=commit_metadata)

    def enable_feature(self, name: str, *, commit_metadata: Mapping[str, Any] | None = None) -> int:
        """Add a feature to the table's protocol, with those that it depends on."""
        snapshot = newest(self)
        feature = rules.known_feature(name)
        protocol = upgraded(
            snapshot.protocol, snapshot.state.schema, snapshot.properties, also=[feature]
        )
        if protocol is None:
            return snapshot.version
        params = {"newProtocol": codec.to_wire(protocol)["protocol"]}
        return send(
            self,
            snapshot,
            [protocol],
            "UPGRADE PROTOCOL",
            params,
            Reads.nothing(),
            told=commit_metadata,
        )
