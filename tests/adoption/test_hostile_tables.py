"""Made-up logs that were adopted even so: every verb ends in a typed error, or is done."""

from __future__ import annotations

import json
import random
import resource
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import deltasql
from deltasql.spec.deletion_vectors import z85_encode
from tests.adoption.forms import FORMS
from tests.adoption.logs import commit_file
from tests.adoption.test_hostile_corpus import LARGEST_SEED, SEED, Log, broken
from tests.sizes import FULL

LOGS = 1_500 if FULL else 60
Verb = Callable[[], Any]


def _verbs(lake: deltasql.Lake, table: deltasql.Table, root: Path) -> Iterator[tuple[str, Verb]]:
    def look() -> Any:
        found = table.snapshot()
        return found.schema, found.properties, found.txns, found.domains, repr(table)

    yield "look", look
    yield "files", lambda: table.snapshot().files()
    yield "scan", lambda: table.scan().to_arrow()
    yield "dataset", lambda: table.scan().to_pyarrow_dataset()
    names: list[str] = []
    with suppress(deltasql.DeltaSqlError):
        names = table.snapshot().schema.names[:2]
    for name in names:
        column = "`" + name.replace("`", "``") + "`"
        late = f"{column} > '2020-01-01'"
        yield f"scan by {name}", lambda late=late: table.scan(late).to_arrow()
        yield f"delete by {name}", lambda column=column: table.delete(f"{column} = 1")
        yield (
            f"update {name}",
            lambda name=name, column=column: table.update(f"{column} IS NULL", {name: column}),
        )
    yield "changes", lambda: table.changes(0)
    yield "append", lambda: table.append(table.scan().to_arrow())
    yield "optimize", table.optimize
    yield "vacuum", table.vacuum
    yield "check", lambda: lake.check("t", full=True)
    yield "restore", lambda: table.restore(version=0)
    yield "clone", lambda: lake.drop_table(table.clone("c").name, purge=True)
    yield "alter", lambda: table.set_properties({"x": "y"})
    yield "mirror", lambda: lake.mirror.run(once=True)
    yield "validate", table.mirror.validate
    yield "export", lambda: table.mirror.export(str(root / "exported"))
    yield "release", table.release


def _use(lake: deltasql.Lake, table: deltasql.Table, root: Path, which: Any) -> None:
    for what, verb in _verbs(lake, table, root):
        try:
            verb()
        except deltasql.DeltaSqlError:
            continue
        except Exception as error:
            raise AssertionError(f"{what} of {which}") from error


def _seeds(tmp_path: Path) -> list[tuple[Path, Log]]:
    """Sound tables with their data files."""
    found = []
    for number, make in enumerate(FORMS.values()):
        root = tmp_path / "seeds" / str(number) / "table"
        root.parent.mkdir(parents=True)
        make(root)
        log = root / "_delta_log"
        files = {str(p.relative_to(log)): p.read_bytes() for p in log.rglob("*") if p.is_file()}
        if sum(map(len, files.values())) < LARGEST_SEED:
            found.append((root, dict(sorted(files.items()))))
    return found


@pytest.mark.timeout(1800)
def test_each_verb_is_told_or_done(lake: deltasql.Lake, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"DELTASQL_CORPUS={SEED}")
    seeds = _seeds(tmp_path)
    adopted = 0
    for number in range(LOGS):
        seed, files = chance.choice(seeds)
        root = tmp_path / "made" / f"t{number}"
        shutil.copytree(seed, root / "t", ignore=shutil.ignore_patterns("_delta_log"))
        for name, body in broken(files, chance).items():
            path = root / "t" / "_delta_log" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        with suppress(deltasql.DeltaSqlError):
            table = lake.adopt(str(root / "t"), "t", validate=False)
            adopted += 1
            _use(lake, table, root, number)
            lake.drop_table("t")
        shutil.rmtree(root, ignore_errors=True)
    assert adopted > LOGS // 5


# --- one by one ---------------------------------------------------------------------------


def _partitioned(root: Path) -> None:
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    for _ in range(2):
        write_deltalake(root, rows, partition_by=["day"], mode="append")


def _change(root: Path, change: Callable[[dict[str, Any]], None]) -> None:
    lines = [json.loads(line) for line in commit_file(root, 1).read_text().splitlines()]
    for line in lines:
        change(line)
    commit_file(root, 1).write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    "values", [{}, {"Day": "a"}, {"day": None}, {"day": "a", "x": "y"}], ids=repr
)
def test_partition_values_that_are_not_the_columns(lake: deltasql.Lake, tmp_path: Path, values):
    _partitioned(tmp_path / "t")

    def change(line: dict[str, Any]) -> None:
        if "add" in line:
            line["add"]["partitionValues"] = values

    _change(tmp_path / "t", change)
    table = lake.adopt(str(tmp_path / "t"), "t", validate=False)
    _use(lake, table, tmp_path, values)


def _with_vector(root: Path, vector: dict[str, Any], stats: str) -> None:
    write_deltalake(root, pa.table({"id": [1, 2]}))
    lines = [json.loads(line) for line in commit_file(root, 0).read_text().splitlines()]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        if "add" in line:
            line["add"] |= {"deletionVector": vector, "stats": stats}
    commit_file(root, 0).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_what_a_vector_and_its_stats_claim_together_takes_no_memory(
    lake: deltasql.Lake, tmp_path: Path
):
    """2^32 rows in runs of 2^16: 0.8 MB of log, 34 GB as numbers."""
    runs = 1 << 16
    bitmap = struct.pack("<IQII", 1681511377, 1, 0, 12347 | (runs - 1) << 16)
    bitmap += bytes([255]) * (runs // 8)
    bitmap += b"".join(struct.pack("<HH", number, 65535) for number in range(runs))
    bitmap += bytes(4 * runs) + struct.pack("<HHH", 1, 0, 65535) * runs
    padded = bitmap + bytes(-len(bitmap) % 4)
    claimed = {"sizeInBytes": len(bitmap), "cardinality": runs << 16}
    vector = {"storageType": "i", "pathOrInlineDv": z85_encode(padded), **claimed}
    _with_vector(tmp_path / "t", vector, json.dumps({"numRecords": runs << 16}))
    table = lake.adopt(str(tmp_path / "t"), "t", validate=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(deltasql.UnsupportedFeatureError, match="deletes 4294967296 rows"):
        table.snapshot().deletion_vectors()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
    _use(lake, table, tmp_path, "a bomb")


def test_no_fewer_rows_than_none_are_deleted(lake: deltasql.Lake, tmp_path: Path):
    vector = {"storageType": "i", "pathOrInlineDv": "00000", "sizeInBytes": 4, "cardinality": -1}
    _with_vector(tmp_path / "t", vector, '{"numRecords": 2}')
    with pytest.raises(deltasql.LogFormatError, match="deletes -1 rows"):
        lake.adopt(str(tmp_path / "t"), "t", validate=False)


def test_a_clone_leaves_out_what_only_its_source_demands(lake: deltasql.Lake, tmp_path: Path):
    """A writer feature that deltasql does not know: readers need not know it."""
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"id": [1]}), configuration={"delta.appendOnly": "false"})
    write_deltalake(root, pa.table({"id": [2]}), mode="append")
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTomorrow"]}
    with commit_file(root, 1).open("a") as file:
        file.write("\n" + json.dumps({"protocol": protocol}) + "\n")
    table = lake.adopt(str(root), "t", fence=False)
    clone = table.clone("c")
    assert sorted(clone.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert clone.append(pa.table({"id": [3]})) == 1
