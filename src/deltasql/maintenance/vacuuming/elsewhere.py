"""What the tables of a lake name at one place by absolute paths, above all shallow clones.

All tables are searched once, and then followed: the transaction that decides on files only asks
those tables that have changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from deltasql.maintenance.vacuuming.keys import Place, vector_file, vector_path
from deltasql.places import uri_of
from deltasql.spec import codec
from deltasql.spec.actions import Action, AddFile, CdcFile, RemoveFile
from deltasql.spec.paths import is_elsewhere
from deltasql.store.interface import LogStore
from deltasql.store.upkeep.interface import NamingLog, NamingTable


class Elsewhere:
    """The keys at a place that any table, except `but`, names by an absolute path."""

    def __init__(self, place: Place, *, but: int = 0) -> None:
        self._place = place
        self._but = but
        self._seen: dict[int, NamingTable] = {}
        self._key_of = lru_cache(maxsize=None)(place.key_of_folder)
        self.keys: set[str] = set()

    def look(self, store: LogStore) -> None:
        """Search all tables; `read_on` finds whatever they name later."""
        self._seen = store.naming_tables()
        self.keys = set()
        for batch in store.absolute_files(but=self._but):
            for row in batch.to_pylist():
                self._add(_paths(row["path"], row["deletion_vector"]), row["location"])

    def read_on(self, log: NamingLog) -> None:
        """Add what was named since."""
        found = log.naming_tables()
        for table_id, table in found.items():
            before = self._seen.get(table_id)
            if table_id == self._but or (before == table and not table.may_grow_unseen):
                continue
            if before is None or before.version is None or table.version is None:
                for path, vector in log.absolute_files_of(table_id):
                    self._add(_paths(path, vector), table.location)
                continue
            for commit in log.commits_of(table_id, after=before.version):
                for action in codec.decode_commit(commit.body):
                    self._add(_named(action), table.location)
        self._seen = found

    def _add(self, paths: Iterable[str], location: str) -> None:
        for path in paths:
            if is_elsewhere(path):
                folder, _, name = uri_of(path, location).rpartition("/")
                start = self._key_of(folder)
                if start is not None:
                    self.keys.add(self._place.key_in(start, name))


def _paths(path: str, vector: str | None) -> Iterator[str]:
    yield path
    found = None if vector is None else vector_path(vector)
    if found is not None:
        yield found


def _named(action: Action) -> Iterator[str]:
    if isinstance(action, AddFile | RemoveFile | CdcFile):
        yield action.path
    if isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None:
        found = vector_file(action.deletion_vector)
        if found is not None:
            yield found
