"""Conditions on partition values: the index keeps every partition that Python would keep."""

from __future__ import annotations

from itertools import product

from deltasql.log.predicates.predicate import bind, parse
from deltasql.log.pruning.files import matching_partitions
from deltasql.log.pruning.partition_ranges import partition_ranges
from deltasql.spec import codec
from deltasql.spec.schema import Primitive, StructField, StructType
from deltasql.store.connect import open_log
from deltasql.store.interface import LogStore
from deltasql.testing.proposals import add, commit, create

LONG = "x" * 150
TEXTS = {
    "string": [None, "", "a", "A", "ab", "b", "é", "😀", "\ue000", "2026-01-02", "5", "a'b", LONG,
               LONG + "a", LONG + "b", "100%", "a\\b", '"'],
    "integer": [None, "-2", "0", "5", "05", "+5", "10", "9", "2147483647", "garbage", "2026-01-02"],
    "long": [None, "9007199254740993", "9007199254740992", "-9223372036854775808", "7",
             "9223372036854775807"],
    "double": [None, "0.1", "1e300", "NaN", "Infinity", "-Infinity", "-0.0", "5", "5.5", "1E-3"],
    "float": [None, "0.1", "16777217", "3.4e38", "0.3"],
    "decimal(20,2)": [None, "5", "5.00", "5.01", "-5.10", "123456789012345678.99"],
    "date": [None, "2026-01-01", "2026-01-02", "2026-1-2", "9999-12-31", "0001-01-01",
             "12026-01-01", "-0044-03-15", "garbage", "5"],
    "timestamp": [None, "2026-01-02 00:00:00", "2026-01-01T23:30:00.000000Z",
                  "2026-01-02 01:00:00+02:00", "2026-01-03 00:00:00.5", "10000-01-01 00:00:00"],
    "timestamp_ntz": [None, "2026-01-02 00:00:00", "2026-01-02 23:59:59.999999", "2026-01-03"],
    "boolean": [None, "true", "FALSE"],
}  # fmt: skip
LITERALS = {
    "string": ["''", "'a'", "'ab'", "'é'", "'5'", f"'{LONG}'", f"'{LONG}a'", "'a''b'"],
    "integer": ["5", "0", "-2", "9.5"],
    "long": ["9007199254740993", "7", "9223372036854775807"],
    "double": ["0.1", "5", "1e300"],
    "float": ["0.1", "0.3", "16777216"],
    "decimal(20,2)": ["5", "5.01", "123456789012345678.99"],
    "date": ["'2026-01-02'", "'0001-01-01'", "'9999-12-31'"],
    "timestamp": ["'2026-01-02 00:00:00'", "'2026-01-01 23:00:00'"],
    "timestamp_ntz": ["'2026-01-02 23:59:59'"],
    "boolean": ["true"],
}


def conditions(kind: str) -> list[str]:
    literals = LITERALS[kind]
    found = [f"p {operator} {literal}" for operator, literal in product(
        ("=", "<", "<=", ">", ">=", "<>", "<=>"), literals)]  # fmt: skip
    found += ["p IS NULL", "p IS NOT NULL", f"p IN ({', '.join(literals)})", "NOT p IS NULL"]
    found += [f"p NOT IN ({literals[0]})", f"p >= {literals[0]} AND p <= {literals[-1]}"]
    found += [f"p = {literals[0]} OR r = 'r1'", f"p > {literals[0]} AND r IN ('r0', 'r2')"]
    found += [
        f"p = {literals[0]} OR i = 5",
        f"p = {literals[0]} AND i = 5",
        f"NOT p < {literals[-1]}",
    ]
    if kind == "string":
        found += [
            "p LIKE 'a%'",
            "p LIKE '%b'",
            "p LIKE 'ab'",
            f"p LIKE '{LONG}%'",
            "p LIKE '100\\%'",
        ]
    return found


def test_no_partition_is_lost(store_url: str):
    store = open_log(store_url)
    for number, kind in enumerate(TEXTS):
        _compare(store, create(store, f"t.t{number}"), kind)
    store.close()


def _compare(store: LogStore, table_id: int, kind: str) -> None:
    schema = StructType(
        (
            StructField("p", Primitive(kind)),
            StructField("r", Primitive("string")),
            StructField("i", Primitive("integer")),
        )
    )
    values = [{"p": text, "r": f"r{n % 3}"} for n, text in enumerate(TEXTS[kind])]
    commit(store, table_id, *(add(str(n), partition_values=v) for n, v in enumerate(values)))
    everything = store.partitions(table_id)
    assert len(everything) == len(values)
    for text in conditions(kind):
        predicate = bind(parse(text), schema)
        ranges = partition_ranges(predicate, schema, ["p", "r"])
        found = store.partitions(table_id, ranges)

        def kept(listed, predicate=predicate):
            loaded = ((key, codec.loads(values)) for key, values in listed)
            return sorted(matching_partitions(predicate, schema, ["p", "r"], loaded))

        assert kept(found) == kept(everything), text
        assert set(found) <= set(everything)


def test_an_index_leaves_few(store_url: str):
    store = open_log(store_url)
    table_id = create(store)
    days = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    commit(
        store,
        table_id,
        *(add(f"{n}", partition_values={"d": d, "n": str(n)}) for n, d in enumerate(days)),
    )
    schema = StructType(
        (StructField("d", Primitive("date")), StructField("n", Primitive("integer")))
    )
    for text, count in {
        "d = '2026-03-05'": 1,
        "d BETWEEN '2026-03-05' AND '2026-03-07'": 3,
        "d IN ('2026-03-05', '2026-12-28', '2027-01-01')": 2,
        "n = 77": 1,
        "n >= 10 AND n < 20": 11,
        "n = 5 OR d = '2026-02-01'": 2,
        "n < 100 AND d > '2026-03-20' AND d < '2026-04-20'": 24,
        "d IS NULL": 0,
    }.items():
        ranges = partition_ranges(bind(parse(text), schema), schema, ["d", "n"])
        assert ranges is not None, text
        # Bounds are ends as well: one more at most for each.
        assert count <= len(store.partitions(table_id, ranges)) <= count + 2, text
    store.close()


def test_a_purge_leaves_nothing(store_url: str):
    store = open_log(store_url)
    table_id = create(store)
    commit(store, table_id, add("a", partition_values={"d": "5"}))
    store.drop_table(table_id)
    store.purge_table(table_id)
    with store.locked([]) as log:
        assert log.execute("SELECT count(*) FROM dl_partition_values") == [(0,)]
    store.close()
