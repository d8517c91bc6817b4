"""Deletion vectors and change files: needed by more than the rows that name them."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path

import deltasql
from deltasql.lake.table import Table
from deltasql.spec.actions import DeletionVector, RemoveFile
from deltasql.spec.deletion_vectors import encode, encode_file, in_file, relative_path
from tests.maintenance.tables import AT_ONCE, SCHEMA, files, folder, ids, live, rows

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def put_vectors(table: Table, *deleted: list[int]) -> tuple[str, list[DeletionVector]]:
    """One file that holds several vectors, as Spark writes them."""
    name = uuid.uuid4().bytes
    bitmaps = [encode(rows_of) for rows_of in deleted]
    content, offsets = encode_file(bitmaps)
    key = relative_path(name)
    Path(folder(table), key).write_bytes(content)
    return key, [
        in_file(name, bitmap=bitmap, offset=offset, cardinality=len(rows_of))
        for bitmap, offset, rows_of in zip(bitmaps, offsets, deleted, strict=True)
    ]


def mark(table: Table, path: str, old: DeletionVector | None, new: DeletionVector) -> None:
    """Give a live file another vector."""
    snapshot = table.snapshot()
    (add,) = (item for item in snapshot.adds() if item.path == path)
    stats = json.dumps({**json.loads(add.stats or "{}"), "tightBounds": False})
    remove = RemoveFile(path=path, data_change=True, deletion_timestamp=1, deletion_vector=old)
    table.commit(
        [remove, replace(add, deletion_vector=new, stats=stats)],
        operation="DELETE",
        read_version=snapshot.version,
    )


def test_a_file_of_vectors_goes_with_the_last_of_them(any_lake: deltasql.Lake):
    table = any_lake.create_table("a.t", SCHEMA, properties=VECTORS)
    table.append(rows(1, 2, 3))
    table.append(rows(11, 12, 13))
    first, second = sorted(live(table), key=lambda path: path)
    shared, (one, two) = put_vectors(table, [0], [0, 1])
    mark(table, first, None, one)
    mark(table, second, None, two)
    newer, (three,) = put_vectors(table, [0, 1])
    mark(table, first, one, three)
    left = ids(table.scan().to_arrow())
    report = table.vacuum(**AT_ONCE, dry_run=False)
    assert report.count == 0, "the second vector of the shared file is live; both files are"
    assert {shared, newer} < files(table)
    assert ids(table.scan().to_arrow()) == left
    newest, (four,) = put_vectors(table, [0, 1, 2])
    mark(table, second, two, four)
    held = table.version - 1
    with table.pin(held):
        assert table.vacuum(**AT_ONCE, dry_run=False).vectors == 0, "a pin needs it"
        assert ids(table.snapshot(held).scan().to_arrow()) == left
    report = table.vacuum(**AT_ONCE, dry_run=False)
    assert (report.vectors, report.files) == (1, (shared,))
    assert files(table) == {first, second, newer, newest}
    assert len(ids(table.scan().to_arrow())) == 1


def test_changes_go_with_their_versions(any_lake: deltasql.Lake):
    table = any_lake.create_table("a.t", SCHEMA, properties=FEED)
    table.append(rows(1, 2, 3))
    table.overwrite(rows(2), where="id = 2")
    changes = {name for name in files(table) if name.startswith("_change_data/")}
    assert changes
    assert table.vacuum(dry_run=False).changes == 0
    with table.pin(table.version):
        assert table.vacuum(**AT_ONCE, dry_run=False).changes == 0
    report = table.vacuum(**AT_ONCE, dry_run=False)
    assert report.changes == len(changes)
    assert files(table) == live(table)
    assert ids(table.scan().to_arrow()) == [1, 2, 3]
