"""Whether two commits with one id are one: told that they are, a client forgets what it sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltasql.lake.table import Table
from deltasql.serve.problems import Refused
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    CdcFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)
from deltasql.store.interface import LogStore

# What the service may add to a commit is not compared; what was asked for must be in it.
_Facts = set[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A commit as it was asked for: its actions as JSON, and an application's transaction."""

    commit_id: str
    actions: Sequence[Mapping[str, Any]]
    txn: tuple[str | None, int | None]


def must_be_the_same(store: LogStore, table: Table, asked: Asked, version: int) -> None:
    """Raise `Refused` for a commit id that stands for other files, transactions or metadata."""
    wanted = [codec.parse_action(action) for action in asked.actions]
    if asked.txn[0] is not None:
        wanted.append(Txn(app_id=asked.txn[0], version=asked.txn[1] or 0))
    for record in store.commits(table.table_id, after=version - 1, upto=version):
        # One, or none once it has expired.
        found = codec.decode_commit(record.body, source=f"version {version} of {table.name}")
        if _files(wanted) != _files(found) or not _changes(wanted) <= _changes(found):
            raise Refused(
                409,
                f"the commit id {asked.commit_id} stands for another commit",
                cause=f"version {version} has it, with other files, transactions or metadata",
                remedy="nothing was committed now: send these actions with an id of their own",
            )


def _files(actions: Iterable[Action]) -> _Facts:
    """What a commit does to rows: files and transactions.

    Deletion vectors are left out: they change where the commit is brought past another.
    """
    found: _Facts = set()
    for item in actions:
        if isinstance(item, AddFile | RemoveFile | CdcFile):
            found.add((type(item).__name__, item.path))
        elif isinstance(item, Txn):
            found.add(("Txn", item.app_id, str(item.version)))
    return found


def _changes(actions: Iterable[Action]) -> _Facts:
    """What a commit does to the table; with metadata come properties that nobody asked for."""
    found: _Facts = set()
    for item in actions:
        if isinstance(item, Metadata):
            found.add(("schema", _shape(item.schema_string), *item.partition_columns))
            found |= {("property", *pair) for pair in item.configuration.items()}
        elif isinstance(item, DomainMetadata):
            found.add(("domain", item.domain, item.configuration, str(item.removed)))
        elif isinstance(item, Protocol):
            found |= {("feature", name) for name in item.reader_features or ()}
            found |= {("feature", name) for name in item.writer_features or ()}
    return found


def _shape(schema: str) -> str:
    """A schema without what columns are given when they are committed, such as their ids."""
    return json.dumps(_bare(json.loads(schema)), sort_keys=True)


def _bare(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _bare(value) for key, value in part.items() if key != "metadata"}
    return [_bare(item) for item in part] if isinstance(part, list) else part
