"""Checkpoints hold what the spec asks for, and nothing else."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltasql.delta_log.checkpoint import file
from deltasql.delta_log.checkpoint.file import portions
from deltasql.delta_log.checkpoint.v2 import uses_v2
from deltasql.delta_log.checkpoint.writing import write_checkpoint
from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.log.state import TableState
from deltasql.spec import codec
from deltasql.spec.actions import AddFile, Protocol
from deltasql.spec.properties import FIELD_ID, PHYSICAL_NAME
from deltasql.spec.schema import Primitive, StructField, StructType
from deltasql.store.interface import TxnRecord
from tests.unit import actions_model as model
from tests.unit.delta_log.checkpoint_model import classic, source, v2

TXNS = (TxnRecord("b", 1, None, 3), TxnRecord("a", 9, 77, 2))
AS_STRUCT = {"delta_checkpoint_writeStatsAsStruct": "true"}


def wire(add: AddFile) -> dict:
    return codec.wire_fields(add) | {"dataChange": False}


def test_rule_23_holds_the_whole_state_and_nothing_else():
    state = model.state(by=("day",), features=("deletionVectors",))
    files = [
        model.add("a", partition_values={"day": "2026-01-01"}, stats=model.STATS),
        model.add("b", partition_values={"day": None}, tags={"k": "v", "n": None}),
        model.add("c", partition_values={"day": None}, deletion_vector=model.vector(offset=4)),
    ]
    gone = [model.remove("c"), model.remove("d", partition_values={"day": None}, size=3)]
    summary, found, content = classic(
        source(state, files, gone, txns=TXNS, domains={"y": "{}", "x": "1"})
    )
    assert found.adds == [wire(add) for add in files]
    assert found.removes == [codec.wire_fields(item) for item in gone]
    assert found.protocol == codec.wire_fields(state.protocol) | {
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": list(state.protocol.writer_features or ()),
    }
    assert found.metadata == codec.wire_fields(state.metadata) | {"partitionColumns": ["day"]}
    assert found.txns == [
        {"appId": "a", "version": 9, "lastUpdated": 77},
        {"appId": "b", "version": 1},
    ]
    assert found.domains == [
        {"domain": "x", "configuration": "1", "removed": False},
        {"domain": "y", "configuration": "{}", "removed": False},
    ]
    assert summary.size == 2 + 3 + 2 + 2 + 2
    assert (summary.version, summary.num_of_add_files) == (4, 3)
    assert summary.size_in_bytes == len(content)


def test_rule_26_removes_have_no_stats_and_no_tags():
    remove = model.remove("a", stats=model.STATS, tags={"k": "v"})
    _, found, content = classic(source(model.state(), (), [remove]))
    assert found.removes == [codec.wire_fields(model.remove("a"))]
    names = {
        item.name for item in pq.ParquetFile(io.BytesIO(content)).schema_arrow.field("remove").type
    }
    assert not names & {"stats", "tags"}


@pytest.mark.parametrize(
    ("protocol", "reader", "writer"),
    [
        (Protocol(min_reader_version=1, min_writer_version=2), None, None),
        (
            Protocol(min_reader_version=1, min_writer_version=7, writer_features=()),
            None,
            [],
        ),
        (
            Protocol(
                min_reader_version=3,
                min_writer_version=7,
                reader_features=(),
                writer_features=("appendOnly",),
            ),
            [],
            ["appendOnly"],
        ),
    ],
)
def test_rule_27_features_are_null_unless_the_version_lists_them(protocol, reader, writer):
    state = model.state()
    state = TableState(
        version=1, in_commit_timestamp=1, metadata=state.metadata, metadata_version=0,
        protocol=protocol, protocol_version=0,
    )  # fmt: skip
    _, found, _ = classic(source(state))
    assert found.protocol.get("readerFeatures") == reader
    assert found.protocol.get("writerFeatures") == writer


def test_rule_28_stats_are_verbatim_json_by_default():
    stats = '{ "numRecords" : 1, "maxValues":{"id":9007199254740993, "x":1.10, "z":-0.0}}'
    _, found, _ = classic(source(model.state(), [model.add(stats=stats)]))
    assert found.adds[0]["stats"] == stats
    assert "stats_parsed" not in found.adds[0]


def test_rule_28_stats_as_struct_only():
    state = model.state(delta_checkpoint_writeStatsAsJson="false", **AS_STRUCT)
    _, found, _ = classic(source(state, [model.add(stats=model.STATS), model.add("b")]))
    assert "stats" not in found.adds[0]
    assert found.adds[0]["stats_parsed"] == {
        "numRecords": 10,
        "minValues": {"id": 1, "name": None, "day": None},
        "maxValues": {"id": 10, "name": None, "day": None},
        "nullCount": {"id": 0, "name": None, "day": None},
        "tightBounds": None,
    }
    assert "stats_parsed" not in found.adds[1]
    assert "partitionValues_parsed" not in found.adds[0]


def test_rule_28_neither_kind_of_stats():
    state = model.state(delta_checkpoint_writeStatsAsJson="false")
    _, found, _ = classic(source(state, [model.add(stats=model.STATS)]))
    assert not {"stats", "stats_parsed"} & set(found.adds[0])


def test_rule_20_files_with_vectors_keep_their_row_counts():
    state = model.state(features=("deletionVectors",), delta_checkpoint_writeStatsAsJson="false")
    files = [
        model.add("a", stats=model.STATS),
        model.add("b", stats=model.STATS, deletion_vector=model.vector()),
    ]
    _, found, _ = classic(source(state, files))
    assert [add.get("stats") for add in found.adds] == [None, model.STATS]


PARTITIONS = [
    ("string", "a=b/c %", "a=b/c %"),
    ("long", "-9223372036854775808", -(2**63)),
    ("integer", "7", 7),
    ("short", "-5", -5),
    ("byte", "127", 127),
    ("float", "0.1", 0.10000000149011612),
    ("double", "0.1", 0.1),
    ("boolean", "true", True),
    ("binary", "\u0001ÿ", b"\x01\xff"),
    ("date", "2026-02-28", date(2026, 2, 28)),
    ("timestamp", "2026-02-28T01:02:03.000004Z", datetime(2026, 2, 28, 1, 2, 3, 4, tzinfo=UTC)),
    ("timestamp_ntz", "2026-02-28 01:02:03", datetime(2026, 2, 28, 1, 2, 3)),  # noqa: DTZ001
    ("decimal(9,2)", "1.50", Decimal("1.50")),
    ("decimal(38,10)", "0.1", Decimal("0.1")),
]


def test_rule_28_partition_values_are_typed_beside_typed_stats():
    columns = [model.column(f"p{n}", kind) for n, (kind, _, _) in enumerate(PARTITIONS)]
    names = tuple(item.name for item in columns)
    state = model.state(StructType((model.column("id"), *columns)), by=names, **AS_STRUCT)
    texts = {name: text for name, (_, text, _) in zip(names, PARTITIONS, strict=True)}
    nothing = dict.fromkeys(names)
    files = [
        model.add("a", partition_values=texts),
        model.add("b", partition_values=nothing),
        model.add("c", partition_values=dict.fromkeys(names, "")),
    ]
    _, found, _ = classic(source(state, files))
    typed = [add["partitionValues_parsed"] for add in found.adds]
    assert typed[0] == {name: value for name, (*_, value) in zip(names, PARTITIONS, strict=True)}
    assert typed[1] == typed[2] == nothing
    assert [add["partitionValues"] for add in found.adds] == [add.partition_values for add in files]


def test_rule_28_typed_columns_have_physical_names():
    def mapped(name: str, number: int, kind=None) -> StructField:
        ids = {FIELD_ID: number, PHYSICAL_NAME: f"col-{number}"}
        return StructField(name, kind or Primitive("long"), metadata=ids)

    schema = StructType((mapped("a", 1, StructType((mapped("b", 2),))), mapped("p", 3)))
    state = model.state(schema, by=("p",), delta_columnMapping_mode="name", **AS_STRUCT)
    stats = '{"numRecords":1,"minValues":{"col-1":{"col-2":5}},"nullCount":{"col-1":{"col-2":0}}}'
    add = model.add(stats=stats, partition_values={"col-3": "4"})
    _, found, _ = classic(source(state, [add]))
    assert found.adds[0]["stats_parsed"]["minValues"] == {"col-1": {"col-2": 5}}
    assert found.adds[0]["partitionValues_parsed"] == {"col-3": 4}


def test_rule_29_47_adds_keep_row_ids_tags_vectors_and_clustering():
    add = model.add(
        deletion_vector=model.vector(offset=0, max_row_index=2**62),
        base_row_id=2**62,
        default_row_commit_version=3,
        tags={},
        clustering_provider="liquid",
        extra={"unknown": 1},
    )
    _, found, _ = classic(source(model.state(features=("deletionVectors",)), [add]))
    expected = wire(add)
    # The schema is fixed: unknown fields are in the commit files only.
    del expected["unknown"]
    assert found.adds == [expected]


def test_rule_39_whoever_cannot_read_does_not_checkpoint():
    state = model.state()
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("unheardOf",),
        writer_features=("unheardOf",),
    )
    state = TableState(
        version=1, in_commit_timestamp=1, metadata=state.metadata, metadata_version=0,
        protocol=protocol, protocol_version=0,
    )  # fmt: skip
    with pytest.raises(UnsupportedFeatureError):
        classic(source(state))


def test_no_files_at_all():
    summary, found, _ = classic(source(model.state()))
    assert (summary.size, summary.num_of_add_files) == (2, 0)
    assert found.adds == found.removes == []


def test_same_state_gives_same_bytes():
    files = [model.add(f"f{n}", stats=model.STATS) for n in range(100)]
    assert (
        classic(source(model.state(), files, txns=TXNS))[2]
        == classic(source(model.state(), files, txns=TXNS[::-1], batch_rows=7))[2]
    )


def test_state_has_a_row_group_of_its_own(monkeypatch):
    monkeypatch.setattr(file, "ROW_GROUP_ROWS", 10)
    files = [model.add(f"f{n}") for n in range(25)]
    gone = [model.remove(f"r{n}") for n in range(11)]
    _, found, content = classic(source(model.state(), files, gone, txns=TXNS, batch_rows=4))
    meta = pq.ParquetFile(io.BytesIO(content)).metadata
    groups = [meta.row_group(n) for n in range(meta.num_row_groups)]
    assert [group.num_rows for group in groups] == [4, 10, 10, 5, 10, 1]
    columns = {groups[0].column(n).path_in_schema: n for n in range(groups[0].num_columns)}
    nulls = [group.column(columns["protocol.minReaderVersion"]).statistics for group in groups]
    assert [item.null_count for item in nulls] == [3, 10, 10, 5, 10, 1]
    assert [add["path"] for add in found.adds] == [add.path for add in files]


@pytest.mark.parametrize("sizes", [[], [0], [1], [65, 3, 0, 7], [10, 10], [3] * 20])
def test_portions_keep_every_row_in_order(monkeypatch, sizes):
    monkeypatch.setattr(file, "ROW_GROUP_ROWS", 10)
    values = iter(range(sum(sizes)))
    batches = [pa.record_batch({"x": [next(values) for _ in range(size)]}) for size in sizes]
    found = [batch.column("x").to_pylist() for batch in portions(batches)]
    assert [value for portion in found for value in portion] == list(range(sum(sizes)))
    assert all(len(portion) == 10 for portion in found[:-1])
    assert all(0 < len(portion) <= 10 for portion in found)


def test_portions_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(file, "ROW_GROUP_BYTES", 10_000)
    batch = pa.record_batch({"x": ["y" * 900] * 50 + ["z" * 20_000] * 2})
    found = list(portions([batch, batch]))
    assert sum(portion.num_rows for portion in found) == 104
    assert max(portion.nbytes for portion in found) < 45_000


def test_failure_leaves_no_complete_file():
    def files():
        yield from source(model.state(), [model.add()]).files
        raise OSError("lost")

    given = source(model.state())
    sink = io.BytesIO()
    with pytest.raises(OSError, match="lost"):
        write_checkpoint(
            sink,
            type(given)(state=given.state, files=files(), tombstones=(), txns=(), domains={}),
        )
    with pytest.raises(pa.ArrowInvalid):
        pq.ParquetFile(io.BytesIO(sink.getvalue()))


@given(files=st.lists(model.ADDS, max_size=5), gone=st.lists(model.REMOVES, max_size=5))
@settings(max_examples=30)
def test_any_actions_survive(files, gone):
    sink = io.BytesIO()
    write_checkpoint(sink, source(model.state(), files, gone, batch_rows=2))
    rows = pq.read_table(io.BytesIO(sink.getvalue())).to_pylist()
    adds = [row["add"] for row in rows if row["add"]]
    for row, add in zip(adds, files, strict=True):
        assert row["path"] == add.path
        assert row["stats"] == add.stats
        assert dict(row["partitionValues"]) == add.partition_values
        assert (None if row["tags"] is None else dict(row["tags"])) == add.tags
        assert row["baseRowId"] == add.base_row_id
        vector = row["deletionVector"]
        assert (vector is None) == (add.deletion_vector is None)
        if vector is not None:
            assert vector["offset"] == add.deletion_vector.offset
            assert vector["cardinality"] == add.deletion_vector.cardinality
    removes = [row["remove"] for row in rows if row["remove"]]
    for row, remove in zip(removes, gone, strict=True):
        assert row["path"] == remove.path
        assert row["deletionTimestamp"] == remove.deletion_timestamp
        values = row["partitionValues"]
        assert (None if values is None else dict(values)) == remove.partition_values


# --- V2 -------------------------------------------------------------------------------

V2 = {"delta_checkpointPolicy": "v2"}


def test_rule_31_v2_has_all_file_actions_in_sidecars(monkeypatch):
    monkeypatch.setattr(file, "ROW_GROUP_ROWS", 10)
    state = model.state(by=("day",), **V2)
    files = [model.add(f"f{n}", partition_values={"day": None}) for n in range(45)]
    gone = [model.remove(f"r{n}") for n in range(12)]
    given = source(state, files, gone, txns=TXNS, domains={"x": "1"})
    done, found, log = v2(given, sidecar_actions=20)
    assert done.name == f"{4:020d}.checkpoint.00000005-0000-4000-8000-000000000000.parquet"
    assert list(log.objects) == [*done.sidecars, done.name]
    # Removes apart: they expire, and adds are named again as they are.
    assert len(done.sidecars) == 4
    assert found.adds == [wire(add) for add in files]
    assert found.removes == [codec.wire_fields(item) for item in gone]
    assert [item["modificationTime"] for item in found.sidecars] == [7] * 4
    # As Delta Spark counts: every action, of the top file and of the sidecars.
    assert done.summary.size == (1 + 1 + 1 + 2 + 1 + 4) + 45 + 12
    assert done.summary.num_of_add_files == 45
    assert done.summary.size_in_bytes == sum(map(len, log.objects.values()))


def test_rule_31_v2_without_files_has_no_sidecars():
    done, found, _ = v2(source(model.state(**V2)))
    assert done.sidecars == ()
    assert found.adds == []
    assert done.summary.size == 3


def test_rule_30_v2_needs_its_feature():
    assert uses_v2(model.state(**V2))
    assert not uses_v2(model.state())
    assert not uses_v2(model.state(features=("v2Checkpoint",)))
    with pytest.raises(ValidationError, match="v2Checkpoint"):
        v2(source(model.state()))


def test_typed_stats_are_in_sidecars_too():
    state = model.state(**V2, **AS_STRUCT)
    _, found, _ = v2(source(state, [model.add(stats=model.STATS)]))
    assert found.adds[0]["stats_parsed"]["numRecords"] == 10
    assert json.loads(found.adds[0]["stats"])["numRecords"] == 10
