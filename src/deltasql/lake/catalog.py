"""The lake: its database, its location, and its tables."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from deltasql.commit import CommitLoop, StateCache
from deltasql.commit.discarding import Discarder
from deltasql.commit.rebasing import Rebaser
from deltasql.data.arrow_schema import ArrowSchema
from deltasql.data.writing.properties import FileOptions, WriterProperties
from deltasql.data.writing.writer import NewFile
from deltasql.errors import (
    ConfigError,
    LocationTakenError,
    TableExistsError,
    ValidationError,
)
from deltasql.lake import locations, new_table, writing
from deltasql.lake.adoption import LakeAdoptions
from deltasql.lake.appending import Appender
from deltasql.lake.arguments import checked, given_settings
from deltasql.lake.dml.words import names_of
from deltasql.lake.dml.write_modes import LakeWrites
from deltasql.lake.looking.auditing import AuditEntry
from deltasql.lake.looking.lake import LakeLooks
from deltasql.lake.looking.missing import missing
from deltasql.lake.mirror import LakeMirror
from deltasql.lake.object_stores import ObjectStores
from deltasql.lake.table import Table
from deltasql.lake.transaction import Transaction
from deltasql.lake.upkeep import purging, recovering
from deltasql.lake.upkeep.maintaining import LakeUpkeep
from deltasql.lake.upkeep.purging import DroppedTable, PurgeReport
from deltasql.mirror.engine import MirrorEngine
from deltasql.secrecy import Hidden, discreet
from deltasql.settings import keys
from deltasql.settings.secrets import mask
from deltasql.settings.sources import Configuration, resolve, user_name
from deltasql.spec.actions import Action
from deltasql.spec.properties import TIMESTAMPS, canonical
from deltasql.spec.schema import StructType
from deltasql.store.connect import ReplicaOptions, open_log
from deltasql.store.interface import LogStore, NameTaken, TableRecord
from deltasql.telemetry import metrics, tracing
from deltasql.version import __version__

if TYPE_CHECKING:
    from deltasql.store.claims import Sources

__all__ = ["AuditEntry", "Lake", "connect", "open_lake"]


@discreet
def connect(
    url: str | None = None,
    location: str | None = None,
    committer: str | None = None,
    settings: Mapping[str, Any] | None = None,
    profile: str | None = None,
) -> Lake:
    """Open a lake, creating or migrating its schema (unless `sql.schema` is `error`).

    `url` is `sqlite:///lake.db`, `duckdb:///lake.duckdb` or `postgresql://…`; `location` is
    where new tables go, for the embedded databases by default a folder beside the file.
    `settings` holds keys such as `sql.pool_size` or `s3.region`. What is not given comes from
    the environment (DELTASQL_URL, DELTASQL_SQL_POOL_SIZE, …), then from deltasql.toml, where
    `profile` selects a section.
    """
    names = {"url": url, "location": location, "committer": committer}
    given = {key: value for key, value in names.items() if value is not None}
    return open_lake(resolve({**given_settings(settings), **given}, profile=profile))


@discreet
def open_lake(configuration: Configuration) -> Lake:
    """Open the lake that a configuration names."""
    url = configuration.text("url")
    if not url:
        raise ConfigError(
            "no database was named",
            remedy="pass a URL such as sqlite:///lake.db, or set DELTASQL_URL",
        )
    settings = configuration.settings
    if settings.telemetry_traces == "on":
        tracing.switch_on()
    store = open_log(
        url,
        pool_size=settings.sql_pool_size,
        timeout=settings.sql_timeout,
        schema=settings.sql_schema,
        replica=ReplicaOptions.of(settings),
    )
    given = configuration.text("location")
    location = locations.absolute(given) if given else locations.beside(url)
    return Lake(
        store,
        url=mask(url),
        location=location,
        committer=configuration.text("committer") or store.role() or user_name(),
        settings=settings,
        storage=configuration.storage,
        opening={**configuration.arguments, "location": location},
    )


@checked
class Lake(LakeAdoptions, LakeUpkeep, LakeLooks, LakeWrites):
    """Tables whose log is in one SQL database."""

    def __init__(
        self,
        store: LogStore,
        *,
        url: str,
        location: str | None,
        committer: str,
        settings: keys.Settings,
        storage: Mapping[str, Any],
        opening: Mapping[str, Any] | None = None,
    ) -> None:
        self.store = store
        metrics.STORES.watch(store)
        # The arguments of `connect`, for the processes in which Spark plans and commits.
        self.opening = opening
        self.url = url
        self.location = location
        self.committer = committer
        self.engine_info = f"deltasql/{__version__}"
        self.states = StateCache(store)
        self.settings = settings
        self.storage = storage
        self._closing = ExitStack()
        self.objects = ObjectStores(storage, store.sources_at)
        self.discarder = Discarder(store, self.objects)
        self.engine = engine = MirrorEngine(store, self.objects, settings)
        self.commits = CommitLoop(
            store,
            self.states,
            timeout=settings.sql_timeout,
            before_again=engine.must_still_not_be_ahead,
            rebaser=Rebaser(store, self.objects, new_id=writing.new_id, now_ms=writing.now_ms),
        )
        self.mirror = LakeMirror(self)
        # Open appenders: what they were handed is committed before the lake closes.
        self.appenders: weakref.WeakSet[Appender] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"<Lake {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def at_close(self, do: Callable[[], object]) -> None:
        """Call `do` before the lake closes, to take back what was handed on to others."""
        self._closing.callback(do)

    def close(self) -> None:
        """Give back connections and locks."""
        for appender in list(self.appenders):
            appender.finish()
        self._closing.close()
        self.engine.close()
        self.presence.close()
        metrics.STORES.unwatch(self.store)
        self.store.close()

    # --- tables -------------------------------------------------------------------------

    def create_table(  # noqa: PLR0913 - the public names
        self,
        name: str,
        schema: pa.Schema | ArrowSchema | StructType | str | None = None,
        partition_by: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        exists_ok: bool = False,  # noqa: FBT001, FBT002 - the public name
        location: str | os.PathLike[str] | None = None,
        *,
        data: Any = None,
        description: str | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        writer: WriterProperties | None = None,
        target_file_size: int | None = None,
    ) -> Table:
        """Create a table; with `exists_ok` an existing one is returned as it is, if it has the
        `properties`. A `schema` may be a text that lists columns as in CREATE TABLE.

        With `data`, version 0 has these rows, and their schema if no other is given; `writer` and
        `target_file_size` (in bytes) say how their files are written. A `location` must be empty,
        and may not be, contain or lie within that of another table, however it is spelled:
        `LocationTakenError`.
        """
        new_table.check_name(name)
        existing = self.store.table(name)
        if existing is not None:
            if exists_ok:
                return _having(Table(self, existing), properties)
            raise _exists(name)
        rows, options = new_table.rows_of(data), FileOptions(writer, target_file_size)
        by = tuple(names_of(partition_by))
        actions = new_table.version_zero(
            new_table.schema_of(schema, rows), by, properties, description
        )

        def create(place: str) -> Table | None:
            params = {
                "partitionBy": list(by),
                "properties": {TIMESTAMPS: "true", **(properties or {})},
            }
            return new_table.create_filled(
                self, name, place, actions, rows, params,
                options=options, commit_metadata=commit_metadata,
            )  # fmt: skip

        if location is not None:
            created = create(locations.check_new(self, location))
        else:
            try:
                created = create(self.place(name))
            except LocationTakenError:
                if rows is not None and not isinstance(rows, pa.Table):
                    # A long stream can't be read again.
                    raise
                # Somebody took the place first: look for another one.
                created = create(self.place(name))
        if created is None and not exists_ok:
            raise _exists(name)
        return created or _having(self.table(name), properties)

    def table(self, name: str) -> Table:
        """The table of that name."""
        record = self.store.table(name)
        if record is None:
            raise missing(self.store, name)
        return Table(self, record)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Give a table another name; its files stay where they are."""
        new_table.check_name(new_name)
        known = self.table(name)
        renamed = self.store.rename_table(known.table_id, new_name)
        if isinstance(renamed, NameTaken):
            raise _exists(new_name, remedy="choose another name, or drop that table")
        if not renamed:
            raise missing(self.store, name)
        # Don't look it up again: it is renamed, whatever fails now.
        return Table(self, TableRecord(known.table_id, new_name, known.location))

    def drop_table(self, name: str, purge: bool = False) -> PurgeReport | None:  # noqa: FBT001, FBT002
        """Take a table out of the lake; with `purge` delete its log and files as well.

        Without `purge` they stay, and the name is free: see `dropped` and `purge`. A table that
        can't be purged is not dropped either.
        """
        if purge:
            purging.must_be_allowed(self.store)
        table = self.table(name)
        if purge:
            return purging.drop_and_purge(self, table)
        if not self.store.drop_table(table.table_id):
            raise missing(self.store, name)
        return None

    def dropped(self) -> list[DroppedTable]:
        """Tables that were dropped and not purged, by name: they still hold their places."""
        return purging.dropped(self)

    def purge(self, table: str | int) -> PurgeReport:
        """Delete the files, the log and the rows of a dropped table, by its name or id.

        Deletes the log and the files that it names; anything else at the location stays, and is
        reported. If another table's log is there by now, everything stays. Call it again to resume
        a purge that was cut off. For a table that was released, or is otherwise not ours to write,
        only the rows are deleted.
        """
        return purging.purge(self, table)

    recover = recovering.recover

    def transaction(
        self,
        *,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
    ) -> Transaction:
        """A transaction over any number of tables: `with lake.transaction() as tx: …`

        With `app_id` and `app_version` it happens once, however often it is run. `commit_metadata`
        goes into the commit of each table.
        """
        return Transaction(
            self, app_id=app_id, app_version=app_version, commit_metadata=commit_metadata
        )

    @property
    def reader_options(self) -> dict[str, str]:
        """The storage options as delta-rs calls them, for readers of the mirror."""
        return {key.partition(".")[2]: Hidden(value) for key, value in self.storage.items()}

    # --- creation -----------------------------------------------------------------------

    def create_with(
        self,
        name: str,
        location: str,
        actions: list[Action],
        *,
        operation: str,
        operation_params: Mapping[str, Any],
        files: Sequence[NewFile] = (),
        commit_id: str | None = None,
        may_arrive: bool = False,
        sources: Sources | None = None,
    ) -> Table | None:
        """Create a table whose version 0 has these actions; None when the name is taken.

        `files` were written for it, and are deleted if the table certainly was not created.
        `may_arrive` says that the same `commit_id` may have been sent before. `sources` are the
        tables whose files it names, by default those at whose places its files lie.
        """
        new_table.check_name(name)
        with tracing.span("create_table", table=name):
            return new_table.create(
                self,
                name,
                location,
                actions,
                operation=operation,
                operation_params=operation_params,
                files=files,
                sources=sources,
                commit_id=commit_id,
                may_arrive=may_arrive,
            )

    def place(self, name: str) -> str:
        """Where a new table of that name goes."""
        new_table.check_name(name)
        return locations.default_place(self, name)


def _having(table: Table, properties: Mapping[str, str] | None) -> Table:
    """A table that existed already; `ValidationError` if it lacks the requested properties."""
    wanted = canonical(properties or {})
    found = table.snapshot(table.version).properties if wanted else {}
    other = sorted(key for key, value in wanted.items() if found.get(key) != value)
    if other:
        shown = ", ".join(f"{key} is {found.get(key, 'not set')}" for key in other)
        raise ValidationError(
            f"{table.name} exists with other properties",
            cause=f"{shown}; the table was left as it is",
            remedy="set them with set_properties(), or leave properties= out",
            key=other[0],
        )
    return table


def _exists(
    name: str, remedy: str = "choose another name, drop it, or pass exists_ok=True"
) -> TableExistsError:
    return TableExistsError(f"there is already a table {name}", remedy=remedy)
