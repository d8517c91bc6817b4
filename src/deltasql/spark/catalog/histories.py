"""Commits for Spark: their bodies, their times, and their history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deltasql.errors import VersionNotFoundError
from deltasql.lake.table import Table
from deltasql.spark.catalog import blocks
from deltasql.spark.catalog.places import Places
from deltasql.spec import codec
from deltasql.spec.actions import CommitInfo
from deltasql.store.interface import CommitRecord

if TYPE_CHECKING:
    from deltasql.lake.catalog import Lake


class Histories:
    """Answers about the versions of a table."""

    def __init__(self, lake: Lake, places: Places) -> None:
        self._lake = lake
        self._places = places

    @property
    def answers(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """By verb."""
        return {
            "body": self._body,
            "versions": self._versions,
            "history": self._history,
            "version_at": self._version_at,
            "earliest": self._earliest,
            "cut": self._cut,
        }

    def _body(self, question: Mapping[str, Any]) -> str | None:
        """The commit file of a version."""
        version = question["version"]
        table = self._places.must_be_at(question["path"])
        found = list(
            self._lake.store.reads.commits(table.table_id, after=version - 1, upto=version)
        )
        return found[0].body.decode() if found else None

    def _versions(self, question: Mapping[str, Any]) -> list[dict[str, int]]:
        """The versions from `first` on, in order, with their times."""
        table = self._places.must_be_at(question["path"])
        head = self._lake.store.head(table.table_id)
        if head is None:
            return []
        count = head.version - max(question["first"], head.earliest_version) + 1
        if count <= 0:
            return []
        last = self._last(table, question)
        found = self._lake.store.reads.history(table.table_id, limit=count)
        return [
            {"version": item.version, "timestamp": item.in_commit_timestamp}
            for item in reversed(found)
            if last is None or item.version <= last
        ]

    def _history(self, question: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The commitInfo of each version, newest first."""
        table = self._places.must_be_at(question["path"])
        last = self._last(table, question, question.get("last"))
        found = self._lake.store.reads.commits(
            table.table_id, after=question["first"] - 1, upto=last
        )
        return [{"version": record.version, "info": _commit_info(record)} for record in found][::-1]

    def _version_at(self, question: Mapping[str, Any]) -> dict[str, int]:
        """The version that was the newest at a time; for an earlier time, the first one."""
        table = self._places.must_be_at(question["path"])
        version = self._lake.store.reads.version_at(table.table_id, question["timestamp"])
        if version is not None:
            version = self._last(table, question, version)
        found = table.snapshot(version=self._first(table) if version is None else version)
        return {"version": found.version, "timestamp": found.state.in_commit_timestamp}

    def _last(
        self, table: Table, question: Mapping[str, Any], wanted: int | None = None
    ) -> int | None:
        """The last version to report: inside a transaction, none after its cut."""
        block = blocks.of(question, self._lake)
        if block is None:
            return wanted
        base = block.base(table)
        return base if wanted is None else min(wanted, base)

    def _cut(self, question: Mapping[str, Any]) -> int:
        """The newest version that the caller may see, without its own writes."""
        table = self._places.must_be_at(question["path"])
        last = self._last(table, question)
        return table.version if last is None else last

    def _earliest(self, question: Mapping[str, Any]) -> int:
        return self._first(self._places.must_be_at(question["path"]))

    def _first(self, table: Table) -> int:
        head = self._lake.store.head(table.table_id)
        if head is None:
            raise VersionNotFoundError(f"{table.name} has no versions")
        return head.earliest_version


def _commit_info(record: CommitRecord) -> str:
    actions = codec.decode_commit(record.body, source=f"{record.version}.json")
    info = next((item for item in actions if isinstance(item, CommitInfo)), CommitInfo())
    fields = codec.wire_fields(info)
    fields["timestamp"] = record.in_commit_timestamp
    fields.setdefault("operation", "")
    fields.setdefault("operationParameters", {})
    return codec.dumps({"commitInfo": fields}).decode()
