"""A lake's tables as plain SQL shows them, past the library under test."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import duckdb
import psycopg
import zstandard

from deltasql.spec import codec
from deltasql.spec.actions import Action, CommitInfo


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a statement, by the database's own driver."""
    scheme, _, rest = url.partition("://")
    if scheme == "postgresql":
        with psycopg.connect(url, autocommit=True) as postgres:
            cursor = postgres.execute(statement)
            return cursor.fetchall() if cursor.description else []
    if scheme == "duckdb":
        with duckdb.connect(rest[1:]) as duck:
            return duck.execute(statement).fetchall()
    connection = sqlite3.connect(rest[1:], isolation_level=None)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


@dataclass(slots=True)
class Version:
    """One row of dl_table_versions, its body decoded."""

    version: int
    commit_id: str
    timestamp: int
    committer: str | None
    transaction: str | None
    is_blind: bool
    digest: bytes
    body: bytes
    actions: list[Action]

    @property
    def info(self) -> CommitInfo:
        return next(action for action in self.actions if isinstance(action, CommitInfo))


@dataclass(slots=True)
class TableRows:
    """All that the database holds about one table."""

    name: str
    versions: list[Version]
    head: tuple[int, ...]
    statuses: dict[int, tuple[str, bytes]]
    live: list[tuple[str, int]]
    dead: list[tuple[str, int, int]]
    txns: list[tuple[int, str, int]]


def read_tables(url: str) -> dict[str, TableRows]:
    """Every table that is not dropped."""
    names = dict(query(url, "SELECT table_id, name FROM dl_tables WHERE dropped_id = 0"))
    versions = _grouped(
        url,
        "SELECT table_id, version, commit_id, in_commit_timestamp, committer, transaction_id, "
        "is_blind_append, digest, body_encoding, body "
        "FROM dl_table_versions ORDER BY table_id, version",
    )
    heads = _grouped(
        url,
        "SELECT table_id, current_version, last_ict, earliest_version, metadata_version, "
        "protocol_version FROM dl_table_heads",
    )
    statuses = _grouped(url, "SELECT table_id, version, status, digest FROM dl_mirror_status")
    live = _grouped(url, "SELECT table_id, path, version FROM dl_active_files")
    dead = _grouped(url, "SELECT table_id, path, version, removed_version FROM dl_dead_files")
    txns = _grouped(url, "SELECT table_id, version, app_id, txn_version FROM dl_txn_actions")
    found = {}
    for table_id, name in names.items():
        assert len(heads[table_id]) == 1, f"{name} has {len(heads[table_id])} heads"
        found[name] = TableRows(
            name=name,
            versions=[_version(row) for row in versions[table_id]],
            head=heads[table_id][0],
            statuses={row[0]: (row[1], bytes(row[2])) for row in statuses[table_id]},
            live=live[table_id],
            dead=dead[table_id],
            txns=txns[table_id],
        )
    return found


def _grouped(url: str, statement: str) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for table_id, *row in query(url, statement):
        found[table_id].append(tuple(row))
    return found


def _version(row: tuple[Any, ...]) -> Version:
    number, commit_id, timestamp, committer, transaction, is_blind, digest, encoding, body = row
    plain = bytes(body)
    if encoding == "zstd":
        reader = zstandard.ZstdDecompressor().stream_reader(plain, read_across_frames=True)
        plain = reader.read()
    return Version(
        version=number,
        commit_id=commit_id,
        timestamp=timestamp,
        committer=committer,
        transaction=transaction,
        is_blind=bool(is_blind),
        digest=bytes(digest),
        body=plain,
        actions=codec.decode_commit(plain),
    )


def digest_of(body: bytes) -> bytes:
    return sha256(body).digest()
