"""docs/schema.md tells the truth: its columns are there, its statements run."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import psycopg
import pytest

from deltasql.errors import DeltaSqlError
from deltasql.store.connect import open_log
from deltasql.testing.proposals import add, commit, create, live, remove
from tests.store.test_migrations import duckdb_columns

DOC = (Path(__file__).parents[2] / "docs" / "schema.md").read_text()
QUESTIONS = re.findall(r"```sql\n(.*?)```", DOC, re.DOTALL)
(PARTITIONS,) = re.findall(r"```sql partitions\n(.*?)```", DOC, re.DOTALL)


def test_every_column_is_documented():
    documented = {}
    for section in re.split(r"^### ", DOC, flags=re.MULTILINE)[1:]:
        name, text = section.split("\n", 1)
        listed = re.search(r": `(.*?)`\.", text)
        columns = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        documented[name] = columns or (listed[1].split(", ") if listed else [])
    assert documented == duckdb_columns()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda text: text.split("\n")[0])
def test_questions_are_answered(question: str, store_url: str):
    if "On PostgreSQL" in question and not store_url.startswith("postgresql"):
        return
    store = open_log(store_url)
    table_id = create(store, "a.b", [add("a")])
    commit(store, table_id, remove("a"), add("b"))
    if store_url.startswith("duckdb"):
        store.close()
        # As Arrow: DuckDB makes Python times with the help of pytz only.
        path = store_url.removeprefix("duckdb:///")
        assert duckdb.connect(path).execute(question).to_arrow_table().num_columns
        return
    with store.locked([]) as log:
        log.execute(question.rstrip().rstrip(";"))
    store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dl_table_heads SET current_version = -1",
        "UPDATE dl_mirror_status SET status = 'DONE'",
        "UPDATE dl_table_versions SET body_encoding = 'gzip'",
    ],
)
def test_columns_refuse_what_they_do_not_mean(statement: str, store_url: str):
    store = open_log(store_url)
    create(store, "a.b", [add("a")])
    with pytest.raises(DeltaSqlError), store.locked([]) as log:
        log.execute(statement)
    store.close()


def test_partitions_change_nothing(postgres_url: str):
    store = open_log(postgres_url)
    tables = [create(store, f"a.t{number}", [add("old"), add("gone")]) for number in range(6)]
    commit(store, tables[0], remove("gone"))
    store.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(PARTITIONS)
    store = open_log(postgres_url, schema="error")
    for table_id in tables:
        commit(store, table_id, *(add(f"{number}") for number in range(1_500)))
    # Rows of other partitions have the same places: none of them may go, too.
    for table_id in tables[:3]:
        commit(store, table_id, remove("old"), *(remove(f"{number}") for number in range(1_490)))
        commit(store, table_id, add("1499", size=7))
    for position, table_id in enumerate(tables):
        head = store.head(table_id)
        assert head is not None
        count = 11 if position < 3 else 1_502
        assert len(live(store, table_id, head.version)) == count - (position == 0)
        assert len(live(store, table_id, 0)) == 2
    store.close()
