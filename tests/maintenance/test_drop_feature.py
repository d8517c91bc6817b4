"""Features leave a table's protocol when nothing needs them, and not before."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

import deltasql
from deltasql.errors import UnsupportedFeatureError, ValidationError
from deltasql.lake.table import Table
from tests.maintenance.judges import seen_by_all
from tests.maintenance.tables import SCHEMA, folder, ids, rows
from tests.maintenance.vectors import VECTORS, delete_marked

# So that whatever was committed before has expired, and has checkpoints to expire to.
AT_ONCE = {
    "delta.dropFeatureTruncateHistory.retentionDuration": "interval 0 seconds",
    "delta.checkpointInterval": "1",
}


def features(table: Table) -> set[str]:
    return set(table.snapshot().protocol.writer_features or ())


def mirrored(lake: deltasql.Lake) -> None:
    lake.mirror.run(once=True)
    lake.presence.beat()


def test_check_constraints(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    table.add_constraint("positive", "id > 0")
    with pytest.raises(ValidationError, match="positive"):
        table.drop_feature("checkConstraints")
    table.drop_constraint("positive")
    version = table.drop_feature("CHECKCONSTRAINTS")
    assert version == table.version == 4
    entry = table.history(1)[0]
    assert entry.operation == "DROP FEATURE"
    assert "checkConstraints" not in features(table)
    with pytest.raises(ValidationError, match="no feature"):
        table.drop_feature("checkConstraints")
    table.add_constraint("small", "id < 100")
    table.append(rows(2))
    assert [row["id"] for row in seen_by_all(lake, table)] == [1, 2]
    assert lake.check().ok


def test_deletion_vectors(lake: deltasql.Lake):
    table = lake.create_table("a.t", SCHEMA, properties=VECTORS | AT_ONCE)
    table.append(rows(1, 2, 3))
    delete_marked(table, 2)
    mirrored(lake)
    with pytest.raises(ValidationError, match="history needs it") as caught:
        table.drop_feature("deletionVectors")
    assert "version" in caught.value.cause
    assert table.snapshot().properties["delta.enableDeletionVectors"] == "false"
    assert not any(add.deletion_vector for add in table.snapshot().adds())
    # A version that makes no use of it, and has a checkpoint.
    table.append(rows(4))
    table.append(rows(5))
    mirrored(lake)
    table.drop_feature("deletionVectors", truncate_history=True)
    assert "deletionVectors" not in features(table)
    assert table.snapshot().protocol.min_reader_version == 1
    mirrored(lake)
    oldest = min(path.name for path in (folder(table) / "_delta_log").glob("*.json"))
    assert int(oldest[:20]) == lake.store.head(table.table_id).earliest_version > 3  # type: ignore[union-attr]
    assert DeltaTable(folder(table)).protocol().reader_features is None
    assert [row["id"] for row in seen_by_all(lake, table)] == [1, 3, 4, 5]
    assert lake.check().ok
    assert table.mirror.validate().ok
    # And it may come back.
    table.set_properties(VECTORS)
    delete_marked(table, 3)
    assert ids(table.scan().to_arrow()) == [1, 4, 5]


def test_a_feature_that_was_never_used_goes_at_once(quick_lake: deltasql.Lake):
    table = quick_lake.create_table("a.t", SCHEMA)
    table.append(rows(1))
    for name in ("deletionVectors", "v2Checkpoint"):
        table.enable_feature(name)
        assert name in features(table)
        table.drop_feature(name)
        assert name not in features(table)
    table.append(rows(2))
    assert [row["id"] for row in seen_by_all(quick_lake, table)] == [1, 2]


def test_v2_checkpoints(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = lake.create_table("a.t", SCHEMA, properties={"delta.checkpointPolicy": "v2", **AT_ONCE})
    for number in range(3):
        table.append(rows(number))
    mirrored(lake)
    log = folder(table) / "_delta_log"
    assert list(log.glob("*.checkpoint.*-*.*"))
    with pytest.raises(ValidationError, match="history needs it"):
        table.drop_feature("v2Checkpoint", truncate_history=True)
    for number in range(3, 6):
        table.append(rows(number))
    mirrored(lake)
    table.drop_feature("v2Checkpoint", truncate_history=True)
    mirrored(lake)
    assert not list(log.glob("*.checkpoint.*-*.*")), "no reader may need to know it"
    assert "v2Checkpoint" not in features(table)
    assert [row["id"] for row in seen_by_all(lake, table)] == list(range(6))


def test_a_version_that_is_held_keeps_its_feature(quick_lake: deltasql.Lake):
    lake = quick_lake
    table = lake.create_table("a.t", SCHEMA, properties=VECTORS | AT_ONCE)
    table.append(rows(1, 2))
    delete_marked(table, 2)
    mirrored(lake)
    with table.pin(version=2) as held:
        with pytest.raises(ValidationError, match="history needs it"):
            table.drop_feature("deletionVectors", truncate_history=True)
        table.append(rows(3))
        mirrored(lake)
        with pytest.raises(ValidationError, match="history needs it"):
            table.drop_feature("deletionVectors", truncate_history=True)
        assert ids(held.scan().to_arrow()) == [1]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("columnMapping", "renamed"),
        ("deltasql", "release"),
        ("inCommitTimestamp", "times"),
        ("appendOnly", "taken back"),
        ("nothing", "no such feature"),
    ],
)
def test_the_others_are_refused_by_name(quick_lake: deltasql.Lake, name: str, why: str):
    table = quick_lake.create_table("a.t", SCHEMA)
    with pytest.raises(UnsupportedFeatureError, match=name) as caught:
        table.drop_feature(name)
    assert why in caught.value.cause
    assert caught.value.features == (name,)
    assert table.version == 0


@pytest.mark.parametrize("makes_use", [False, True])
def test_a_commit_between_the_look_and_the_drop(
    quick_lake: deltasql.Lake, monkeypatch, makes_use: bool
):
    """It is looked at as well."""
    table, other = quick_lake.create_table("a.t", SCHEMA), quick_lake.table("a.t")
    table.enable_feature("deletionVectors")
    real, raced = table.commit_request, []

    def commit_request(request):
        if not raced:
            raced.append(other.set_properties(VECTORS) if makes_use else other.append(rows(1)))
        return real(request)

    monkeypatch.setattr(table, "commit_request", commit_request)
    if makes_use:
        with pytest.raises(ValidationError, match="needs"):
            table.drop_feature("deletionVectors")
    else:
        assert table.drop_feature("deletionVectors") == 3
    assert ("deletionVectors" in features(table)) == makes_use


def test_a_protocol_that_merely_lacks_a_feature_is_still_refused(quick_lake: deltasql.Lake):
    table = quick_lake.create_table("a.t", SCHEMA)
    table.enable_feature("deletionVectors")
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["deltasql"]}
    with pytest.raises(ValidationError, match="drops"):
        table.commit([{"protocol": protocol}])
