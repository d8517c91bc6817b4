"""The operations of tables and lakes, as procedures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deltasql.lake.table import Table
from deltasql.spark.catalog.procedures.procedure import Parameter, Procedure, Row
from deltasql.spec import codec

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake

_TABLE = Parameter("table")
_ANY_TABLE = Parameter("table", default="CAST(NULL AS STRING)")
_VERSION = Parameter("version", "BIGINT", "CAST(NULL AS BIGINT)")
# Not a text: Spark reads one in the session's time zone, as in RESTORE … TO TIMESTAMP AS OF.
_TIMESTAMP = Parameter("timestamp", "TIMESTAMP", "CAST(NULL AS TIMESTAMP)")
# From stock Delta's metrics.
_OPTIMIZED = (
    "numRemovedFiles", "numAddedFiles", "numRemovedBytes", "numAddedBytes",
    "numDeletionVectorsRemoved",
)  # fmt: skip


def _some(lake: Lake, given: Mapping[str, Any]) -> list[Table]:
    """The named table, or all of them."""
    name = given["table"]
    return lake.tables() if name is None else [lake.table(name)]


def _adopt(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    location, name = given["location"], given["table"]
    allow = [item.strip() for item in (given["allow"] or "").split(",") if item.strip()]
    if given["dry_run"]:
        told = lake.adopt(location, name, dry_run=True, fence=given["fence"], allow=allow)
        yield name, told.version, told.versions, told.read_only, "; ".join(told.problems)
        return
    table = lake.adopt(location, name, fence=given["fence"], allow=allow)
    versions = table.version - table.history()[-1].version + 1
    yield name, table.version, versions, table.read_only, ""


def _release(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    yield given["table"], lake.table(given["table"]).release()


def _repair(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    for table in _some(lake, given):
        if table.read_only is None:
            told = table.mirror.repair(force=given["force"])
            problems = [*told.conflicts, *map(str, told.ahead), *told.errors]
            done = len(told.restored), len(told.moved_aside)
            yield told.table, told.ok, *done, "; ".join(problems)


def _validate(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    for table in _some(lake, given):
        told = table.mirror.validate()
        yield told.table, told.ok, told.version, told.lag_versions, told.first_drift, told.error


def _check(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    for name, told in lake.check(given["table"]).tables.items():
        problems = "; ".join(finding.problem for finding in told.findings)
        yield name, told.ok, told.version, told.files, problems


def _vacuum(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    for table in _some(lake, given):
        if given["table"] is not None or table.read_only is None:
            told = table.vacuum(
                given["retention"],
                given["dry_run"],
                enforce_retention_duration=given["enforce_retention_duration"],
            )
            found = told.dead, told.vectors, told.changes, told.orphans
            yield told.table, told.dry_run, *found, told.bytes, told.kept_since


def _optimize(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    told = lake.table(given["table"]).optimize(
        given["where"], given["target_size"], given["zorder_by"] or (), purge=given["purge"]
    )
    found = (told.metrics.get(name, 0) for name in _OPTIMIZED)
    yield told.table, told.version, len(told.versions), told.skipped, *found


def _restore(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    table = lake.table(given["table"])
    told = table.restore(given["version"], given["timestamp"])
    yield given["table"], told.version, told.restored_version


def _purge(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    told = lake.purge(given["table"])
    yield told.table, told.files, told.log_files, told.kept_count


def _dropped(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    del given
    for item in lake.dropped():
        yield item.name, item.table_id, item.location, item.dropped_at


def _history(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    for entry in lake.table(given["table"]).history(given["limit"]):
        yield (
            entry.version,
            entry.timestamp,
            entry.operation,
            codec.dumps(entry.operation_params).decode(),
            entry.committer,
            entry.transaction_id,
            entry.is_blind_append,
        )


def _changes(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    table = lake.table(given["table"])
    for change in table.changes(given["from_version"], given["to_version"]):
        for action in change.actions:
            yield change.version, change.timestamp, codec.encode(action).decode()


def _sessions(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    del given
    for item in lake.sessions():
        yield (
            item.session_id,
            item.kind,
            item.host,
            item.pid,
            item.committer,
            item.started_at,
            item.heartbeat_at,
            item.writing_since,
            item.is_alive,
        )


def _mirror_status(lake: Lake, given: Mapping[str, Any]) -> Iterator[Row]:
    for item in lake.mirror.status():
        if given["table"] in (None, item.table):
            told = item.version, item.mirrored_version, item.lag_versions, item.lag_seconds
            yield item.table, *told, item.is_paused, item.error_message


VERBS = (
    Procedure(
        name="adopt",
        about="Take in the Delta table at a location, with its history, where it is.",
        parameters=(
            Parameter("location"),
            _TABLE,
            Parameter("dry_run", "BOOLEAN", "false"),
            Parameter("fence", "BOOLEAN", "true"),
            # Folders, separated by commas.
            Parameter("allow", default="CAST(NULL AS STRING)"),
        ),
        columns="table STRING, version BIGINT, versions BIGINT, read_only STRING, problems STRING",
        run=_adopt,
        writes=True,
    ),
    Procedure(
        name="release",
        about="Hand a table back to plain Delta writers.",
        parameters=(_TABLE,),
        columns="table STRING, version BIGINT",
        run=_release,
        writes=True,
    ),
    Procedure(
        name="repair",
        about="Rewrite the mirror of a table where it differs from its commits.",
        parameters=(_ANY_TABLE, Parameter("force", "BOOLEAN", "false")),
        columns="table STRING, ok BOOLEAN, restored BIGINT, moved_aside BIGINT, problems STRING",
        run=_repair,
        writes=True,
    ),
    Procedure(
        name="validate",
        about="Compare the mirror of a table with SQL.",
        parameters=(_ANY_TABLE,),
        columns="table STRING, ok BOOLEAN, version BIGINT, lag_versions BIGINT, "
        "first_drift BIGINT, error STRING",
        run=_validate,
    ),
    Procedure(
        name="check",
        about="Replay the stored commits of a table against its rows.",
        parameters=(_ANY_TABLE,),
        columns="table STRING, ok BOOLEAN, version BIGINT, files BIGINT, problems STRING",
        run=_check,
        writes=True,
    ),
    Procedure(
        name="vacuum",
        about="Delete the files that no version within the retention needs; by default only "
        "report them.",
        parameters=(
            _ANY_TABLE,
            Parameter("retention", default="CAST(NULL AS STRING)"),
            Parameter("dry_run", "BOOLEAN", "true"),
            Parameter("enforce_retention_duration", "BOOLEAN", "true"),
        ),
        columns="table STRING, dry_run BOOLEAN, dead BIGINT, vectors BIGINT, changes BIGINT, "
        "orphans BIGINT, bytes BIGINT, kept_since TIMESTAMP",
        run=_vacuum,
        writes=True,
    ),
    Procedure(
        name="optimize",
        about="Write small files, and those with many deleted rows, together; no row changes.",
        parameters=(
            _TABLE,
            Parameter("where", default="CAST(NULL AS STRING)"),
            Parameter("zorder_by", "ARRAY<STRING>", "CAST(NULL AS ARRAY<STRING>)"),
            Parameter("target_size", default="CAST(NULL AS STRING)"),
            Parameter("purge", "BOOLEAN", "false"),
        ),
        columns="table STRING, version BIGINT, commits BIGINT, skipped BIGINT, "
        "files_removed BIGINT, files_added BIGINT, bytes_removed BIGINT, bytes_added BIGINT, "
        "vectors_removed BIGINT",
        run=_optimize,
        writes=True,
    ),
    Procedure(
        name="restore",
        about="Restore a table to a version or a time, as a new commit.",
        parameters=(_TABLE, _VERSION, _TIMESTAMP),
        columns="table STRING, version BIGINT, restored_version BIGINT",
        run=_restore,
        writes=True,
    ),
    Procedure(
        name="purge",
        about="Delete the files and the rows of a table that was dropped.",
        parameters=(_TABLE,),
        columns="table STRING, files BIGINT, log_files BIGINT, kept BIGINT",
        run=_purge,
        writes=True,
    ),
    Procedure(
        name="dropped",
        about="The tables that were dropped and not purged.",
        columns="table STRING, table_id BIGINT, location STRING, dropped_at TIMESTAMP",
        run=_dropped,
    ),
    Procedure(
        name="history",
        about="The versions of a table, newest first.",
        parameters=(_TABLE, Parameter("limit", "BIGINT", "CAST(NULL AS BIGINT)")),
        columns="version BIGINT, timestamp TIMESTAMP, operation STRING, "
        "operation_parameters STRING, committer STRING, transaction_id STRING, "
        "is_blind_append BOOLEAN",
        run=_history,
    ),
    Procedure(
        name="changes",
        about="What the versions of a table did, one Delta action per row.",
        parameters=(
            _TABLE,
            Parameter("from_version", "BIGINT"),
            Parameter("to_version", "BIGINT", "CAST(NULL AS BIGINT)"),
        ),
        columns="version BIGINT, timestamp TIMESTAMP, action STRING",
        run=_changes,
    ),
    Procedure(
        name="sessions",
        about="The processes that write to the lake, oldest first.",
        columns="session_id STRING, kind STRING, host STRING, pid BIGINT, committer STRING, "
        "started_at TIMESTAMP, heartbeat_at TIMESTAMP, writing_since TIMESTAMP, is_alive BOOLEAN",
        run=_sessions,
    ),
    Procedure(
        name="mirror_status",
        about="How far the mirrors of the tables are.",
        parameters=(_ANY_TABLE,),
        columns="table STRING, version BIGINT, mirrored_version BIGINT, lag_versions BIGINT, "
        "lag_seconds DOUBLE, is_paused BOOLEAN, error STRING",
        run=_mirror_status,
    ),
)
