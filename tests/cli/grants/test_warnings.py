"""What a role that lacks a right is told, and when."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from deltasql.errors import DatabaseError
from tests.cli.grants.statements import ROWS


def _warned(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_reader_who_appends_is_told_the_reason_alone(connect_as, caplog):
    with pytest.raises(DatabaseError, match="permission denied"):
        connect_as("reader").table("t").append(ROWS)
    assert _warned(caplog) == []


def test_a_writer_who_is_not_known_is_warned_once_it_has_written(
    connect_as, postgres_url, names, caplog
):
    lake = connect_as("writer")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        role = sql.Identifier(names["writer"])
        connection.execute(sql.SQL("REVOKE INSERT ON dl_sessions FROM {}").format(role))
    lake.table("t").append(ROWS)
    assert [text for text in _warned(caplog) if "dl_sessions" in text]
