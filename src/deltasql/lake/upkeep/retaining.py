"""Retention as users see it: `lake.expire` and `table.expire`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from deltasql.lake.upkeep.every_table import on_every_table
from deltasql.maintenance.expiring import ExpireReport, ExpireWish, expire

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake
    from deltasql.lake.table import Table


class TableRetention:
    """What a table does with versions that are no longer needed."""

    __slots__ = ()

    def expire(
        self,
        retention: timedelta | str | float | None = None,
        dry_run: bool = True,  # noqa: FBT001, FBT002 - the public name
        *,
        enforce_retention_duration: bool = True,
        clean_mirror: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> ExpireReport:
        """Let versions older than the retention leave the history; by default only report.

        `retention` is a duration, a text such as `30 days`, or a number of hours; by default that
        of `delta.logRetentionDuration`, whose cutoff is midnight UTC. A shorter one needs
        `enforce_retention_duration=False`. The table stays readable from its newest checkpoint
        before the cutoff on; a pinned version and all later ones stay. With `clean_mirror`, the
        mirror's log is cleaned up as well, by the property alone.
        """
        table = cast("Table", self)
        lake = table._lake
        # Report the present state: what this process wrote a moment ago is committed by now.
        lake.presence.beat()
        wish = ExpireWish(
            retention=retention,
            dry_run=dry_run,
            enforce_retention_duration=enforce_retention_duration,
            committer=lake.committer,
        )
        report = expire(
            lake.store, lake.objects(table.location), table.table_id, table.name, wish, progress
        )
        if clean_mirror and not dry_run:
            table.mirror.cleanup(dry_run=False)
        return report


class LakeRetention:
    """The same for every table."""

    __slots__ = ()

    def expire(
        self,
        retention: timedelta | str | float | None = None,
        dry_run: bool = True,  # noqa: FBT001, FBT002 - the public name
        *,
        enforce_retention_duration: bool = True,
        clean_mirror: bool = True,
    ) -> list[ExpireReport]:
        """`Table.expire` of every table that deltasql may write, by name."""
        return on_every_table(
            cast("Lake", self),
            lambda table: table.expire(
                retention,
                dry_run,
                enforce_retention_duration=enforce_retention_duration,
                clean_mirror=clean_mirror,
            ),
        )
