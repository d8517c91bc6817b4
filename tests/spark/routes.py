"""The two routes to our tables and stock Delta's to its own, behind one pair of verbs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from tests.spark.cross_check import rows

ROUTES = ("native", "source")
# What the data source route says of what it can't do.
NAMES_NATIVE = r"(?s)native route.*attach"

# Options as Spark's readers and writers call them, and as `db.read` and `db.write` do.
_NATIVE = {
    "versionAsOf": "version",
    "timestampAsOf": "timestamp",
    "replaceWhere": "replace_where",
    "mergeSchema": "merge_schema",
    "overwriteSchema": "overwrite_schema",
    "partitionOverwriteMode": "partition_overwrite",
    "txnAppId": "app_id",
    "txnVersion": "app_version",
}


@dataclass(frozen=True)
class Native:
    """`db.read` and `db.write`."""

    db: Any

    def read(self, name: str, where: str | None = None, **options: Any) -> Any:
        return self.db.read(name, where=where, **{_NATIVE[k]: v for k, v in options.items()})

    def write(
        self, frame: Any, name: str, mode: str = "append", by: Any = (), **options: Any
    ) -> None:
        given = {_NATIVE[key]: value for key, value in options.items()}
        self.db.write(frame, name, mode=mode, partition_by=by, **given)


@dataclass(frozen=True)
class Source:
    """`format("deltasql")`."""

    spark: Any
    format: str = "deltasql"

    def read(self, name: str, where: str | None = None, **options: Any) -> Any:
        frame = self.spark.read.format(self.format).options(**options).load(name)
        return frame if where is None else frame.where(where)

    def write(
        self, frame: Any, name: str, mode: str = "append", by: Any = (), **options: Any
    ) -> None:
        writer = frame.write.format(self.format).mode(mode).options(**options)
        (writer.partitionBy(*by) if by else writer).save(name)


@dataclass(frozen=True)
class Plain:
    """Stock Delta, by the names of plain Delta tables: only such ones cast what is written."""

    spark: Any

    def read(self, name: str, where: str | None = None, **options: Any) -> Any:
        frame = self.spark.read.format("delta").options(**options).table(name)
        return frame if where is None else frame.where(where)

    def write(
        self, frame: Any, name: str, mode: str = "append", by: Any = (), **options: Any
    ) -> None:
        writer = frame.write.format("delta").mode(mode).options(**options)
        (writer.partitionBy(*by) if by else writer).saveAsTable(name)


@dataclass(frozen=True)
class Found:
    """What a reader finds in a table."""

    schema: Any
    rows: list[str]

    @classmethod
    def of(cls, frame: Any) -> Found:
        return cls(frame.schema, rows(frame))


def new_name() -> str:
    """A name for a table of ours."""
    return f"t.{uuid.uuid4().hex[:12]}"


def new_plain(spark: Any, columns: str = "", by: str = "", more: str = "") -> str:
    """A name for a plain Delta table, made where columns are given."""
    name = f"stock_{uuid.uuid4().hex[:12]}"
    if columns:
        parts = f" PARTITIONED BY ({by})" if by else ""
        spark.sql(f"CREATE TABLE {name} ({columns}) USING delta{parts}{more}")
    return name
