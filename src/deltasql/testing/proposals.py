"""Proposals for tests: from actions, with everything else filled in plausibly."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from deltasql.log.pruning.stats_keys import FileKeys
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    DeletionVector,
    Metadata,
    Protocol,
    RemoveFile,
)
from deltasql.spec.properties import APPEND_ONLY
from deltasql.store.interface import BodyTemplate, Committed, LogStore, Proposal
from deltasql.store.rows import CommitRows, to_rows

OpenStore: TypeAlias = Callable[[], LogStore]

METADATA = Metadata(
    id="3f1c0c0e-0000-4000-8000-000000000001",
    schema_string='{"type":"struct","fields":[]}',
    configuration={APPEND_ONLY: "false"},
)
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)


def proposal(table_id: int, actions: Iterable[Action] = (), **changes: Any) -> Proposal:
    """A proposal of these actions; `changes` are fields of `Proposal`."""
    listed = list(actions)
    made = Proposal(
        table_id=table_id,
        commit_id=str(uuid.uuid4()),
        metadata_version=0,
        protocol_version=0,
        expected_head=None,
        body=BodyTemplate(
            b'{"commitInfo":{"inCommitTimestamp":',
            b',"operation":"WRITE","timestamp":',
            b"}}\n" + codec.encode_commit(listed),
        ),
        rows=to_rows(listed, ()),
        committer="tester",
        operation="WRITE",
        operation_params='{"mode":"Append"}',
        transaction_id=None,
        is_blind_append=False,
    )
    return replace(made, **changes)


def create(
    store: LogStore,
    name: str | None = None,
    actions: Sequence[Action] = (),
    location: str | None = None,
) -> int:
    """A new table, by default with a free name and place; returns its id."""
    name = name or f"contract.t{uuid.uuid4().hex}"
    first = proposal(0, [METADATA, PROTOCOL, *actions])
    table_id = store.create_table(name, location or f"memory:///{name}", first)
    assert isinstance(table_id, int)
    return table_id


def commit(store: LogStore, table_id: int, *actions: Action, **changes: Any) -> Committed:
    """Commit actions that nothing prevents."""
    outcome = store.commit(proposal(table_id, actions, **changes))
    assert isinstance(outcome, Committed), outcome
    return outcome


def add(path: str, dv: str = "", **changes: Any) -> AddFile:
    """An add; `dv` names a deletion vector."""
    made = AddFile(path=path, size=10, modification_time=1_700_000_000_000)
    return replace(made, deletion_vector=vector(dv), **changes)


def remove(path: str, dv: str = "", **changes: Any) -> RemoveFile:
    """A remove; `dv` names a deletion vector."""
    made = RemoveFile(path=path, deletion_timestamp=1_700_000_000_001)
    return replace(made, deletion_vector=vector(dv), **changes)


def vector(name: str) -> DeletionVector | None:
    """A deletion vector identified by its name; None for no name."""
    if not name:
        return None
    return DeletionVector(
        storage_type="u", path_or_inline_dv=name, size_in_bytes=36, cardinality=2, offset=1
    )


def with_keys(rows: CommitRows, keys: Sequence[FileKeys]) -> CommitRows:
    """The rows with the stats keys of their adds replaced."""
    adds = []
    for row, found in zip(rows.adds, keys, strict=True):
        adds.append(row._replace(**found._asdict()))
    return replace(rows, adds=adds)


def live(store: LogStore, table_id: int, version: int, **filters: Any) -> list[tuple[str, int]]:
    """Path and adding version of the files at a version, sorted."""
    found = store.files(table_id, version, **filters).read_all()
    return sorted(zip(found["path"].to_pylist(), found["version"].to_pylist(), strict=True))
