"""COPY text: what PostgreSQL reads from it is what was in the rows."""

from __future__ import annotations

import orjson
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.store.postgres.bulk.copy_text import copy_chunks
from deltasql.store.postgres.reader import SQL
from deltasql.store.rows import ADD_COLUMNS, Row

_ESCAPED = {r"\\": "\\", r"\t": "\t", r"\n": "\n", r"\r": "\r"}
_TEXT = st.text(
    st.sampled_from("aé{}|,\"'\\\t\n\r😀") | st.characters(exclude_categories=["Cs", "Cc"]),
    max_size=12,
)
_LIST = st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=4)
_COUNTS = st.lists(st.none() | st.integers(0, 2**62), max_size=4)
_NUMBER = st.integers(-(2**63), 2**63 - 1)
_ROW = st.tuples(
    st.binary(max_size=16), st.binary(max_size=16), _NUMBER, _NUMBER, _NUMBER,
    *[st.none() | _NUMBER] * 3, st.booleans(), _LIST, _LIST, _COUNTS, _TEXT, _TEXT,
    *[st.none() | _TEXT] * 5,
)  # fmt: skip


def _read(text: str) -> list[list[str | None]]:
    """The fields of COPY text, by the rules of PostgreSQL's manual."""
    lines = text.split("\n")
    assert lines.pop() == ""
    return [
        [None if field == r"\N" else _unescaped(field) for field in line.split("\t")]
        for line in lines
    ]


def _unescaped(field: str) -> str:
    found, rest = "", field
    while rest:
        size = 2 if rest[0] == "\\" else 1
        found += _ESCAPED[rest[:2]] if size == 2 else rest[0]
        rest = rest[size:]
    return found


def _shown(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, list):
        return "{" + orjson.dumps(value)[1:-1].decode() + "}"
    return {True: "t", False: "f"}[value] if isinstance(value, bool) else str(value)


@given(st.lists(_ROW, max_size=120))
def test_every_value_comes_back(rows):
    text = b"".join(copy_chunks(7, 8, rows)).decode()
    assert _read(text) == [["7", "8", *map(_shown, row)] for row in rows] if rows else not text


@pytest.mark.postgres
def test_postgres_reads_it(postgres_url):
    odd = "a\\b\tc\nd\re{}|\"',é"
    rows: list[Row] = [
        (bytes([n]), b"", n, 1, 2, n or None, None, None, n % 2 == 0, [1.5, None], [], [0, None],
         odd, "{}", odd if n else None, None, None, None, None)
        for n in range(120)
    ]  # fmt: skip
    with psycopg.connect(postgres_url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE dl_active_files (table_id bigint, version bigint, path_key bytea,"
            " dv_key bytea, partition_key bigint, size_bytes bigint, modification_time bigint,"
            " num_records bigint, base_row_id bigint, default_row_commit_version bigint,"
            " data_change boolean, min_keys float8[], max_keys float8[], null_counts bigint[],"
            " path text, partition_values text, stats text, tags text, deletion_vector text,"
            " clustering_provider text, extra text)"
        )
        with cursor.copy(SQL["adds_copy"]) as copy:
            for chunk in copy_chunks(7, 8, rows):
                copy.write(chunk)
        cursor.execute(f"SELECT {', '.join(ADD_COLUMNS)} FROM dl_active_files ORDER BY 1")
        assert cursor.fetchall() == rows
