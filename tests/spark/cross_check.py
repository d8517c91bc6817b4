"""Stock readers as judges: what they find in the mirror must be what SQL has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from deltasql.spark.datasource.source import _plain_schema
from tests.readers.engines import DeltaRs, lines, place
from tests.sizes import FULL

# Tables that delta-rs 1.6.6 can't read, by a feature of theirs, and what it says (see
# docs/readers.md). Stock Delta Spark alone is the judge of them, and of columns of variants,
# which delta-rs shows as the two binaries that they are stored as.
NOT_IN_DELTA_RS = {"typeWidening": "TypeWidening"}
_BY_SPARK_ALONE = {*NOT_IN_DELTA_RS, "variantType"}

# What stock Delta's merge says with vectors of a null key of the source under <=> that no insert
# takes, if there is a clause by source: nothing to compare with. test_dml.py has that case.
STOCK_FAILS = "Unexpected row: did not match any merge clause"

_PADDING = "spark.sql.readSideCharPadding"


def rows(frame: Any) -> list[str]:
    """The rows of a frame in an order of their own, comparable."""
    return sorted(repr(tuple(row)) for row in frame.collect())


# The shapes that stock Spark has judged in this process, in all modules.
_seen: set[Any] = set()


class CrossCheck:
    """Compares every table of a lake, as SQL has it, with what others find in its mirror."""

    def __init__(self, spark: Any, lake: Any, db: Any) -> None:
        self._spark = spark
        self._lake = lake
        self._db = db
        self._delta_rs = DeltaRs()

    def check_mirrors(self) -> None:
        self._lake.mirror.run(once=True)
        # What is stored: Spark fills a char(n) up with blanks when it reads, nobody else does.
        self._spark.conf.set(_PADDING, "false")
        try:
            for table in self._lake.tables():
                if not table.mirror.status().is_paused:
                    self.check(table)
        finally:
            self._spark.conf.unset(_PADDING)

    def check(self, table: Any) -> None:
        """Rows and types: SQL by our own reader, the mirror by Delta Spark and by delta-rs.

        Spark takes a second for each table: unless all is to be tested, it is asked about the
        first of each shape, and delta-rs about all that it can read.
        """
        snapshot = table.snapshot()
        features = snapshot.state.reader_features
        shape = _shape(snapshot)
        if not FULL and shape in _seen and not features & _BY_SPARK_ALONE:
            names = snapshot.scan().to_arrow().column_names
            other = lines(self._delta_rs.rows(place(table), None), names)
            assert other == lines(snapshot.scan().to_arrow(), names), table.name
            return
        _seen.add(shape)
        self._check_by_spark(table, snapshot)

    def _check_by_spark(self, table: Any, snapshot: Any) -> None:
        stock = self._spark.read.format("delta").load(table.location)
        found = stock.schema
        assert found == StructType.fromJson(_plain_schema(snapshot.state)), table.name
        names, features = found.names, snapshot.state.reader_features
        if "variantType" in features:
            # Arrow has no variants: as text, and by Spark on both sides.
            expected = _arrow(self._db.read(table.name))
        else:
            expected = snapshot.scan().to_arrow()
        told = lines(expected, names)
        assert lines(_arrow(stock), names) == told, table.name
        known = [NOT_IN_DELTA_RS[name] for name in features if name in NOT_IN_DELTA_RS]
        if known:
            with pytest.raises(Exception, match="|".join(known)):
                self._delta_rs.rows(place(table), None)
        else:
            shown = [item.name for item in found.fields if not _is_variant(item)]
            other = lines(self._delta_rs.rows(place(table), None), shown)
            assert other == lines(expected, shown), table.name


def _shape(snapshot: Any) -> Any:
    """What stock readers may stumble over: types, odd names, partitions, features, properties.

    Neither order nor repetition is, nor what plain columns are called.
    """
    metadata, protocol = snapshot.metadata, snapshot.protocol
    fields = json.loads(metadata.schema_string)["fields"]
    partitions = set(metadata.partition_columns)
    columns = {
        (
            json.dumps(item["type"]),
            item["nullable"],
            item["name"] in partitions,
            "" if item["name"].isidentifier() else item["name"],
            frozenset(item["metadata"]),
        )
        for item in fields
    }
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    vectors = any(add.deletion_vector is not None for add in snapshot.adds())
    # Words choose a form; numbers, conditions and made-up names are of one table.
    chosen = {
        (key, value if value.isalpha() or value == "v2" else "")
        for key, value in metadata.configuration.items()
        if not key.startswith("delta.constraints.")
    }
    return frozenset(columns), frozenset(listed), versions, frozenset(chosen), vectors


def _arrow(frame: Any) -> pa.Table:
    """The rows of a frame with their types, variants as text."""
    return frame.select(*_plain(frame.schema.fields)).toArrow()


def _plain(fields: Sequence[Any]) -> list[Any]:
    from pyspark.sql import functions as sql

    columns = []
    for item in fields:
        column = sql.col("`" + item.name.replace("`", "``") + "`")
        columns.append(sql.to_json(column).alias(item.name) if _is_variant(item) else column)
    return columns


def _is_variant(item: Any) -> bool:
    return bool(item.dataType.typeName() == "variant")
