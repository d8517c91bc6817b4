"""Tables that others wrote read as they read them: counts and rows of every version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from deltasql.data.reading.reader import output_schema, read_files
from deltasql.errors import UnsupportedFeatureError
from deltasql.log.predicates.predicate import bind, parse
from deltasql.objectstore import open_store
from deltasql.spec import codec
from deltasql.spec.actions import AddFile
from deltasql.spec.properties import COLUMN_MAPPING_MODE
from deltasql.spec.schema import StructType, parse_schema
from tests.conformance.tables import ROOT, TABLES, needed


@dataclass(frozen=True)
class Case:
    name: str
    version: str
    about: dict[str, Any]
    files: tuple[AddFile, ...]
    schema: StructType

    @property
    def meta(self) -> dict[str, Any]:
        return self.about["meta"]

    def read(self, **options: Any) -> pa.Table:
        batches = read_files(
            open_store(str(ROOT / "tables" / self.name)),
            self.files,
            schema=self.schema,
            partition_columns=self.meta["partitionColumns"],
            column_mapping=self.meta["configuration"].get(COLUMN_MAPPING_MODE, "none"),
            **options,
        )
        return pa.Table.from_batches(batches, output_schema(self.schema, options.get("columns")))


def _cases() -> Iterator[Case]:
    for name, table in TABLES.items():
        if table["log_only"] or table["mark"] not in ("ok", "edge"):
            continue
        for version, about in sorted(table["versions"].items(), key=lambda item: int(item[0])):
            if about.get("rows") is None:
                continue
            adds = [codec.from_wire({"add": _complete(table["adds"][i])}) for i in about["active"]]
            schema = parse_schema(table["schemas"][about["schema"]])
            yield Case(name, version, about, tuple(adds), schema)


def _complete(add: dict[str, Any]) -> dict[str, Any]:
    return {"dataChange": True} | add


def _has_variant(case: Case) -> bool:
    return any(str(item.type).find("variant") >= 0 for item in case.schema.fields)


CASES = list(_cases())
LATEST = list({case.name: case for case in CASES}.values())
PLAIN = [case for case in LATEST if not _has_variant(case)]
# What deltalake reads as the log says; DuckDB shares its kernel and would add nothing.
TO_DELTALAKE = [
    case
    for case in CASES
    if case.about.get("deltalake", {}).get("rows") == case.about["rows"] and not _has_variant(case)
]
STORED = [case for case in LATEST if case.about.get("stored_rows", {}).get("vs_duckdb") == "same"]

pytestmark = needed


def _id(case: Case) -> str:
    return f"{case.name}@{case.version}"


def _rows(table: pa.Table) -> list[str]:
    names = sorted(table.column_names)
    return sorted(repr([_value(row[name]) for name in names]) for row in table.to_pylist())


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _value(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_the_count_of_rows(case: Case) -> None:
    if _has_variant(case):
        with pytest.raises(UnsupportedFeatureError, match="variant"):
            case.read()
        return
    assert case.read().num_rows == case.about["rows"]
    assert case.read(columns=[]).num_rows == case.about["rows"]


@pytest.mark.parametrize("case", STORED, ids=_id)
def test_the_rows_that_spark_stored(case: Case) -> None:
    folder = (ROOT / "tables" / case.name).parent / "expected"
    latest = folder / "latest" / "table_content"
    files = sorted((latest if latest.exists() else folder).glob("*.parquet"))
    found = case.read()
    tables = [pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read() for file in files]
    stored = pa.concat_tables([table.select(found.column_names) for table in tables])
    assert _rows(found) == _rows(_in_utc(stored, found.schema))


def _in_utc(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """INT96 comes back without a zone."""
    columns = [
        column.cast(schema.field(name).type) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


@pytest.mark.parametrize("case", TO_DELTALAKE, ids=_id)
def test_the_rows_that_deltalake_reads(case: Case) -> None:
    table = DeltaTable(ROOT / "tables" / case.name, version=int(case.version))
    query = QueryBuilder().register("t", table).execute("select * from t")
    found = pa.table(query)
    assert _rows(case.read()) == _rows(found)


@pytest.mark.parametrize("case", PLAIN, ids=_id)
def test_each_column_alone_and_a_predicate_on_it(case: Case) -> None:
    whole = case.read()
    for name in whole.column_names:
        assert case.read(columns=[name]).column(name).to_pylist() == whole.column(name).to_pylist()
        predicate = bind(parse(f"`{name}` IS NOT NULL"), case.schema)
        kept = case.read(columns=[], predicate=predicate)
        assert kept.num_rows == whole.num_rows - whole.column(name).null_count
