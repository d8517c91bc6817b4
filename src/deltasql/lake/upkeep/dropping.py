"""`table.drop_feature`: takes what a table no longer needs out of its protocol."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from deltasql.delta_log.listing import list_log
from deltasql.errors import CommitError, CommitStateUnknownError, ValidationError
from deltasql.log.retention import truncated_log_ms
from deltasql.maintenance.altering import dropping as rules
from deltasql.mirror.cleanup import cleanup
from deltasql.spec.protocol import lowered

if TYPE_CHECKING:
    from deltasql.lake.snapshot import Snapshot
    from deltasql.lake.table import Table

# How often to check again that the feature is unused, if others commit meanwhile.
_TRIES: Final = 5


class TableFeatures:
    """Takes features out of a table's protocol."""

    __slots__ = ()

    def drop_feature(self, name: str, *, truncate_history: bool = False) -> int:
        """Take a feature out of the protocol, once nothing needs it; returns the version.

        First the table stops using it: properties are changed, files rewritten. If readers have to
        know the feature, the versions that used it must have expired, in SQL and in the mirror, by
        the table's own retention; with `truncate_history` by that of
        `delta.dropFeatureTruncateHistory.retentionDuration`, a day by default. Until then it raises
        `ValidationError`, and continues when it is called again.
        """
        table = cast("Table", self)
        feature = rules.droppable(name)
        for attempt in range(_TRIES):
            rules.must_be_unused(table.base().state, feature)
            self._stop_using(table, feature)
            snapshot = table.base()
            if rules.needs_clean_history(feature):
                self._forget(table, snapshot, feature, truncate=truncate_history)
            params = {"featureName": feature, "truncateHistory": truncate_history}
            request = table.request(
                [lowered(snapshot.protocol, feature)],
                operation="DROP FEATURE",
                operation_params=params,
                read_version=snapshot.version,
                # A commit in between may use the feature.
                expected_head=snapshot.version,
                dropping=frozenset({feature}),
            )
            try:
                return table.commit_request(request)
            except CommitStateUnknownError:
                raise
            except CommitError:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    def _stop_using(self, table: Table, feature: str) -> None:
        """Make the head stop using the feature."""
        found = rules.property_to_clear(feature, table.base().properties)
        if found is not None:
            table.set_properties(dict([found]))
        if _uses(table.base(), feature):
            table.reorg()

    def _forget(self, table: Table, snapshot: Snapshot, feature: str, *, truncate: bool) -> None:
        """Let versions that used the feature expire; raises while there are any."""
        lake = table._lake
        if truncate:
            kept = timedelta(milliseconds=truncated_log_ms(snapshot.properties))
            table.expire(kept, dry_run=False, enforce_retention_duration=False)
        else:
            table.expire(dry_run=False)
        head = lake.store.head(table.table_id)
        assert head is not None, "the table was there a moment ago"
        first = head.earliest_version
        if first > 0:
            cleanup(lake.engine, lake.store, table.objects, table.target, dry_run=False, upto=first)
        commits = lake.store.commits(table.table_id, after=first - 1, upto=snapshot.version)
        version = rules.last_trace(feature, commits)
        if version is None and _uses(table.base(first), feature):
            version = first
        if version is not None:
            raise _too_early(feature, f"version {version} uses it")
        left = rules.trace_in_mirror(feature, list_log(table.objects), since=first)
        if left is not None:
            raise _too_early(feature, f"the mirror still has {left}")


def _uses(snapshot: Snapshot, feature: str) -> bool:
    """Whether a version uses a feature, whichever commit brought it in."""
    if rules.property_to_clear(feature, snapshot.properties) is not None:
        return True
    return feature == rules.VECTORS and any(
        add.deletion_vector is not None for add in snapshot.adds()
    )


def _too_early(feature: str, cause: str) -> ValidationError:
    return ValidationError(
        f"the feature {feature} can't be dropped yet: the history needs it",
        cause=f"{cause}; from now on the table writes none",
        remedy="drop it again when those versions have expired and the mirror has a later "
        "checkpoint, see docs/maintenance.md; truncate_history=True keeps only a day",
        features=(feature,),
    )
