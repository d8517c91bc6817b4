"""Named queries and their parts: none takes another's name by accident."""

import re
from collections import Counter

import pytest

from tests.architecture.test_modules import PACKAGE

SQL = PACKAGE / "store" / "sql"
NOT_QUERIES = {"schema.sql", "functions.sql", "grants.sql"}
# By dialect: the shared queries and parts that it says in its own words, on purpose.
OVERRIDDEN = {
    "postgres": {
        "bin_claim",
        "browse_activity",
        "browse_audit",
        "browse_live_at",
        "browse_transaction",
        "history_lease",
        "live_at",
        "head_create",
        "in_schemas",
        "migrations_exist",
        "partitions_matching",
        "place_take",
        "source_lock",
        "table_create",
        "table_rename",
        "versions_audit",
    },
    "sqlite": {"dead_index", "live_index", "migrations_exist", "summed_bytes"},
    "duckdb": {"body_length", "history_times_apart", "unless_live"},
}


def _files(folder):
    return [path for path in sorted((SQL / folder).glob("*.sql")) if path.name not in NOT_QUERIES]


def _names(path):
    return re.findall(r"^-- (?:name|part): (\w+)$", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("folder", ["shared", *OVERRIDDEN])
def test_no_name_twice(folder):
    counts = Counter(name for path in _files(folder) for name in _names(path))
    assert counts, "no query was found"
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("dialect", OVERRIDDEN)
def test_shared_queries_are_overridden_on_purpose(dialect):
    shared = {name for path in _files("shared") for name in _names(path)}
    found = {}
    for path in _files(dialect):
        found |= {name: path for name in _names(path) if name in shared}
    assert set(found) == OVERRIDDEN[dialect], "a query or part has the name of a shared one"
    for path in found.values():
        assert path.read_text().startswith("-- Differs: "), f"{path.name} does not say why"
