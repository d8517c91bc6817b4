"""Every reader finds in our checkpoints what SQL has: rows, files, metadata, domains, txns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder

import deltasql
from deltasql.lake.table import Table
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, Metadata, Protocol
from deltasql.spec.deletion_vectors import inline
from deltasql.spec.features import FENCE
from deltasql.store.interface import TxnRecord
from deltasql.testing.delta_log import CheckpointActions
from tests.conformance import tables as conformance
from tests.mirror.checkpoint_tables import FORMS, NOT_IN_POLARS, TABLES, make, mirrored, replay_of
from tests.mirror.checkpointed import Duck, by_deltalake, by_polars, plain, write_log
from tests.readers.tables import SCALARS, TYPED, appends
from tests.unit import actions_model as model
from tests.unit.delta_log.checkpoint_model import source as source_of


@pytest.fixture(scope="module")
def duck() -> Duck:
    return Duck()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[deltasql.Lake]:
    root = tmp_path_factory.mktemp("lake")
    with deltasql.connect(f"sqlite:///{root / 'lake.db'}", location=root.as_uri()) as lake:
        yield lake


# --- the matrix -----------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("about", TABLES)
def test_rule_23_readers_find_the_rows_and_files_of_sql(lake, duck, about, form):
    table = make(lake, about, form)
    root, found = mirrored(lake, table)
    expected = table.scan().to_arrow()
    names = expected.column_names
    assert plain(by_deltalake(root), names) == plain(expected, names)
    if table.snapshot().state.reader_features & NOT_IN_POLARS:
        with pytest.raises(Exception, match="polars does not support"):
            by_polars(root)
    else:
        assert plain(by_polars(root), names) == plain(expected, names)
    assert plain(duck.rows(root), names) == plain(expected, names)
    check_files(duck, root, list(table.snapshot().adds()))
    check_state(duck, root, table, found)


def check_files(duck: Duck, root: Path, files: list[AddFile]) -> None:
    """Paths, sizes, times and deletion vectors of each file."""
    adds = pa.table(DeltaTable(root).get_add_actions(flatten=True))
    told = {row["path"]: row for row in adds.to_pylist()}
    assert set(told) == {add.path for add in files}
    for add in files:
        row = told[add.path]
        assert row["size_bytes"] == add.size
        assert _milliseconds(row["modification_time"]) == add.modification_time
    from_duck = {path: (values, deletes) for path, values, deletes in duck.files(root)}
    assert len(from_duck) == len(files)
    assert sorted(deletes for _, deletes in from_duck.values()) == sorted(
        add.deletion_vector is not None for add in files
    )


def _milliseconds(moment: Any) -> int:
    return moment if isinstance(moment, int) else round(moment.timestamp() * 1000)


def check_state(duck: Duck, root: Path, table: Table, found: CheckpointActions) -> None:
    replay, snapshot, told = replay_of(table), table.snapshot(), DeltaTable(root)
    assert told.version() == snapshot.version
    assert told.metadata().id == snapshot.metadata.id
    assert told.metadata().configuration == snapshot.metadata.configuration
    assert told.metadata().partition_columns == list(snapshot.metadata.partition_columns)
    protocol = told.protocol()
    assert protocol.min_reader_version == snapshot.protocol.min_reader_version
    assert set(protocol.writer_features or ()) == set(snapshot.protocol.writer_features or ())
    assert FENCE in (protocol.writer_features or ())
    for app_id, version in snapshot.txns.items():
        assert told.transaction_version(app_id) == version
    # DuckDB shows no domain of Delta's own.
    users = {name: text for name, text in snapshot.domains.items() if name[:6] != "delta."}
    assert duck.domains(root) == users
    keys = [(codec.from_wire({"remove": item}).path) for item in found.removes]
    assert sorted(keys) == sorted(path for path, _ in replay.tombstones)


def test_rule_19_29_47_stats_row_ids_and_vectors_are_those_of_the_commits(lake):
    for about in ("every type", "vectors", "row ids", "mapped"):
        table = make(lake, about, "classic")
        _, found = mirrored(lake, table)
        live = replay_of(table).files
        assert len(found.adds) == len(live)
        for add in found.adds:
            told = codec.from_wire({"add": add})
            assert isinstance(told, AddFile)
            assert told == replace(live[told.path, told.dv_id], data_change=False)


@pytest.mark.parametrize("form", ["classic", "both stats", "typed stats", "v2, typed stats"])
def test_rule_28_stats_are_the_same_by_either_way(lake, form):
    """What delta-rs knows of a column's bounds, from text or from typed columns."""
    table = make(lake, "every type", form)
    root, _ = mirrored(lake, table)
    adds = pa.table(DeltaTable(root).get_add_actions(flatten=True)).to_pylist()
    (row,) = adds
    assert row["num_records"] == 3
    assert (row["min.id"], row["max.id"]) == (0, 2)
    assert row["null_count.string"] == 1
    assert (row["min.long"], row["max.long"]) == (-(2**63), 2**63 - 1)
    assert row["max.decimal"] == Decimal("1.50")
    assert row["min.date"] == date(1969, 7, 20)


# What selects the first row, in the SQL of DataFusion and of DuckDB.
FIRST_ROW = {
    "string": "'a b%=/é?#'",
    "long": "9223372036854775807",
    "integer": "1",
    "short": "1",
    "byte": "127",
    "float": "0.5",
    "double": "0.1",
    "boolean": "true",
    "date": "DATE '2026-02-28'",
    "timestamp": "'2026-02-28T01:02:03.456789Z'",
    "timestamp_ntz": "'2026-02-28T01:02:03.456789'",
    "decimal": "1.50",
    "wide_decimal": "0.0000000001",
}


@pytest.mark.parametrize("form", ["classic", "typed stats", "v2, typed stats"])
@pytest.mark.parametrize("about", ["every type", "by every type"])
def test_rule_28_readers_skip_no_file_that_they_need(lake, duck, about, form):
    """One row a file, each looked for by every column, with what the checkpoint says of it."""
    table = make(lake, about, form, fill=appends(*(TYPED.slice(n, 1) for n in range(3))))
    root, found = mirrored(lake, table)
    assert len(found.adds) == 3
    query = QueryBuilder().register("t", DeltaTable(root))
    for name, value in FIRST_ROW.items():
        where = f'"{name}" = {value}'
        rows_found = pa.table(query.execute(f"SELECT id FROM t WHERE {where}"))
        assert rows_found["id"].to_pylist() == [0], where
        assert duck.ask(f"SELECT id FROM delta_scan(?) WHERE {where}", root) == [(0,)], where
        nulls = f'"{name}" IS NULL ORDER BY id'
        expected = [n for n in range(3) if _is_null(about, name, SCALARS[name][1][n])]
        rows_found = pa.table(query.execute(f"SELECT id FROM t WHERE {nulls}"))
        assert rows_found["id"].to_pylist() == expected, nulls
        found_by_duck = duck.ask(f"SELECT id FROM delta_scan(?) WHERE {nulls}", root)
        assert [row[0] for row in found_by_duck] == expected, nulls


def _is_null(about: str, name: str, value: Any) -> bool:
    # As a partition value, the empty text is null.
    return value is None or (about == "by every type" and name == "string" and value == "")


# --- many files -----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["classic", "typed stats", "v2"])
def test_twenty_thousand_files(tmp_path, duck, form):
    count = 20_000
    properties = {key.replace(".", "_"): value for key, value in FORMS[form].items()}
    state = model.state(by=("day",), version=40, features=("deletionVectors",), **properties)
    stats = '{"numRecords":%d,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}'
    files = [
        model.add(
            f"day=2026-01-{n % 28 + 1:02d}/f{n}.parquet",
            partition_values={"day": f"2026-01-{n % 28 + 1:02d}"},
            stats=stats % (n + 1, n, 2 * n),
            size=1000 + n,
            modification_time=10**12 + n,
            deletion_vector=inline([n]) if n % 10 == 0 else None,
        )
        for n in range(count)
    ]
    gone = [model.remove(f"r{n}.parquet", size=n) for n in range(500)]
    found = write_log(tmp_path, source_of(state, files, gone), **_sidecars(form))
    assert len(found.sidecars) == (0 if form != "v2" else 2)
    assert len(found.removes) == 500
    adds = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).sort_by("size_bytes")
    assert adds["path"].to_pylist() == [add.path for add in files]
    assert adds["size_bytes"].to_pylist() == [add.size for add in files]
    assert pc.sum(adds["num_records"]).as_py() == count * (count + 1) // 2
    assert adds["max.id"].to_pylist() == [2 * n for n in range(count)]
    assert adds["partition.day"].to_pylist()[5] == date(2026, 1, 6)
    told = {path: (values, deletes) for path, values, deletes in duck.files(tmp_path)}
    assert set(told) == {add.path for add in files}
    assert told["day=2026-01-11/f10.parquet"] == ({"day": "2026-01-11"}, True)


def _sidecars(form: str) -> dict[str, int]:
    # The adds fill one sidecar, the removes go into the next.
    return {"sidecar_actions": 20_000} if form == "v2" else {}


# --- tables that others wrote ---------------------------------------------------------

FOREIGN = [name for name, about in conformance.TABLES.items() if about["mark"] == "ok"]


@conformance.needed
@pytest.mark.parametrize("form", ["classic", "both stats"])
@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_tables_keep_their_files(tmp_path, duck, name, form):
    """The state that a replay of a foreign log gave, through our checkpoint and back."""
    about = conformance.TABLES[name]
    version, now = max(about["versions"].items(), key=lambda item: int(item[0]))
    meta = now["meta"] | {"schemaString": about["schemas"][now["schema"]]}
    meta["configuration"] = meta["configuration"] | FORMS[form]
    metadata = codec.from_wire({"metaData": meta})
    protocol = codec.from_wire({"protocol": now["protocol"]})
    assert isinstance(metadata, Metadata)
    assert isinstance(protocol, Protocol)
    files = [_foreign_add(about["adds"][place]) for place in now["active"]]
    state = TableState(
        version=int(version), in_commit_timestamp=1, metadata=metadata, metadata_version=0,
        protocol=protocol, protocol_version=0,
    )  # fmt: skip
    txns = [TxnRecord(app, number, None, 0) for app, number in _versions(now["txns"])]
    for item in (conformance.ROOT / "tables" / name).iterdir():
        if item.name != "_delta_log":
            (tmp_path / item.name).symlink_to(item)
    found = write_log(tmp_path, source_of(state, files, txns=txns))
    assert [add["path"] for add in found.adds] == [add.path for add in files]
    adds = pa.table(DeltaTable(tmp_path).get_add_actions())
    assert sorted(adds["path"].to_pylist()) == sorted(add.path for add in files)
    assert len(duck.files(tmp_path)) == len(files)
    if not about["log_only"]:
        ((count,),) = duck.ask("SELECT count(*) FROM delta_scan(?)", tmp_path)
        assert count == now["rows"]


def _versions(txns: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for app, found in txns.items():
        yield app, found if isinstance(found, int) else found["version"]


def _foreign_add(wire: dict[str, Any]) -> AddFile:
    add = codec.from_wire({"add": {"dataChange": True} | wire})
    assert isinstance(add, AddFile)
    return add
