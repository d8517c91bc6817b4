"""Files that a transaction says anew, with other tags for one: they are there once."""

import pyarrow as pa
import pytest

import deltasql
from deltasql.spec.actions import AddFile, RemoveFile


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def table(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        table = lake.create_table("t", rows().schema)
        table.append(rows(1, 2, 3))
        yield table


def restated(table, *, data_change=False):
    (file,) = table.snapshot().adds()
    return AddFile(
        path=file.path,
        size=file.size,
        modification_time=file.modification_time,
        partition_values={},
        data_change=data_change,
        stats=file.stats,
        tags={"x": "y"},
    )


def removed(table):
    (file,) = table.snapshot().adds()
    return RemoveFile(
        path=file.path,
        deletion_timestamp=1,
        extended_file_metadata=True,
        partition_values={},
        size=file.size,
    )


def ids(table):
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def run(table, *steps):
    """What the transaction sees after its steps, and the table in the end; they must agree."""
    with table._lake.transaction() as tx:
        inside = tx.table("t")
        for step in steps:
            step(inside)
        seen, files = ids(inside), inside.snapshot().files().num_rows
    assert ids(table) == seen
    assert table.snapshot().files().num_rows == files
    assert table._lake.check("t").ok
    return seen


def test_rows_are_not_doubled(table):
    again = restated(table)
    assert run(table, lambda t: t.commit([again])) == [1, 2, 3]
    (file,) = table.snapshot().adds()
    assert file.tags == {"x": "y"}


def test_part_of_it_is_replaced(table):
    again = restated(table)
    steps = [lambda t: t.commit([again]), lambda t: t.overwrite(rows(1), where="id = 1")]
    assert run(table, *steps) == [1, 2, 3]


def test_all_of_it_is_replaced(table):
    again = restated(table)
    assert run(table, lambda t: t.commit([again]), lambda t: t.overwrite(rows(7))) == [7]


def test_it_is_removed(table):
    again, gone = restated(table), removed(table)
    assert run(table, lambda t: t.commit([again]), lambda t: t.commit([gone])) == []


def test_it_is_removed_and_comes_back(table):
    again, gone = restated(table, data_change=True), removed(table)
    steps = [lambda t: t.commit([gone]), lambda t: t.commit([again])]
    assert run(table, *steps) == [1, 2, 3]
    assert run(table, *steps, lambda t: t.commit([gone])) == []


def test_a_file_of_its_own_that_goes_again_was_never_there(table):
    table.overwrite(rows())
    own = AddFile(path="own", size=1, modification_time=1, partition_values={}, stats=None)
    gone = RemoveFile(path="own", deletion_timestamp=1, data_change=True)
    assert run(table, lambda t: t.commit([own]), lambda t: t.commit([gone])) == []
    assert not [action for action in table.changes(3)[0].actions if isinstance(action, RemoveFile)]


def test_both_in_one_commit_are_refused(table):
    again, gone = restated(table), removed(table)
    for actions in ([again, gone], [gone, again]):
        with pytest.raises(deltasql.ValidationError, match="added and removed"):
            run(table, lambda t, given=actions: t.commit(given))
    assert ids(table) == [1, 2, 3]
