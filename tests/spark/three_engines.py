"""One table three times, changed by the same operations: from Arrow, by our Spark verbs, and by
stock Delta Spark, which is the judge.

All three begin with the same files. What an operation came to is read from the logs by the rules
of the Delta protocol: Spark is asked for nothing but the operations themselves.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from deltasql.data.reading.reader import read_files
from deltasql.data.writing.vectors import live_rows, row_count
from deltasql.errors import ValidationError
from deltasql.log.feed import as_add
from deltasql.objectstore import open_store
from deltasql.spec import codec
from deltasql.spec.actions import (
    Action,
    AddFile,
    CdcFile,
    CommitInfo,
    Metadata,
    Protocol,
    RemoveFile,
)
from deltasql.spec.features import FENCE
from deltasql.spec.schema import parse_schema
from tests.row_operations import (
    ARROW,
    MAY_MATCH,
    batch,
    built,
    expressions,
    operations,
    row,
    run_from_arrow,
    where,
)
from tests.spark.cross_check import STOCK_FAILS

SCHEMA = "id int, p int, v string"
FEED = "delta.enableChangeDataFeed"
VECTORS = "delta.enableDeletionVectors"
# Whatever a commit says of them depends on how the files of a table lie.
_OF_FILES = ("Copied", "RemovedFiles", "FilesRemoved", "Vectors")
# What a merge says of rows that it wrote as they were.
_OF_COPIES = ("numTargetRowsCopied", "numTargetFilesRemoved", "numOutputRows")
# Sizes differ from writer to writer, and so does into how many files rows go.
_OF_WRITERS = ("Bytes", "FileSize", "numFiles", "FilesAdded", "AddedFiles", "ChangeFiles")
# Rows that satisfy a condition, by what makes any row one of them.
_REPLACED: Mapping[str | None, Mapping[int, Any]] = {
    None: {},
    "p = 1": {1: 1},
    "p IS NULL": {1: None},
    "id = 3": {0: 3},
    "p = 1 AND id > 2": {0: 4, 1: 1},
    "v = 'a'": {2: "a"},
}


def _satisfying(condition: str | None, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    fixed = _REPLACED[condition]
    return [tuple(fixed.get(at, value) for at, value in enumerate(item)) for item in rows]


_rows = st.lists(row, min_size=1, max_size=4)
every_operation = st.one_of(
    operations,
    operations,
    st.tuples(st.just("append"), _rows),
    st.builds(
        lambda condition, rows: ("overwrite", condition, _satisfying(condition, rows)),
        st.sampled_from(list(_REPLACED)),
        _rows,
    ),
    st.tuples(st.just("optimize")),
)


class RefusedError(Exception):
    """The operation was refused: a row matches several."""


@dataclass
class Log:
    """A table by its log alone, as the protocol says that it is read."""

    place: str
    commits: list[list[Action]]

    def live(self) -> list[AddFile]:
        found: dict[tuple[str, str | None], AddFile] = {}
        for actions in self.commits:
            for action in actions:
                if isinstance(action, RemoveFile):
                    found.pop((action.path, action.dv_id), None)
            found |= {(item.path, item.dv_id): item for item in actions if type(item) is AddFile}
        return list(found.values())

    def layout(self) -> Counter[Any]:
        """How many rows, and how many deleted ones, there are in each file."""
        return Counter(
            (tuple(add.partition_values.items()), live_rows(add), row_count(add))
            for add in self.live()
        )

    def rows(self) -> Counter[Any]:
        return Counter(item for add in self.live() for item in self._read(add))

    def changes(self, after: int) -> Counter[Any]:
        """The feed since a version."""
        found: Counter[Any] = Counter()
        for actions in self.commits[after + 1 :]:
            own = [action for action in actions if isinstance(action, CdcFile)]
            for action in own:
                found.update(self._read(_of_changes(action), has_kind=True))
            if not own:
                came, went = self._moved(actions, AddFile), self._moved(actions, RemoveFile)
                for path in came.keys() | went.keys():
                    # One that got another vector is in both: what it still has is no change.
                    new, old = came.get(path, Counter()), went.get(path, Counter())
                    found.update((*item, "insert") for item in (new - old).elements())
                    found.update((*item, "delete") for item in (old - new).elements())
        return found

    def _moved(self, actions: list[Action], kind: type[Any]) -> dict[str, Counter[Any]]:
        names = self._metadata.partition_columns
        moved = [item for item in actions if isinstance(item, kind) and item.data_change]
        return {
            item.path: Counter(self._read(as_add(item, names) if kind is RemoveFile else item))
            for item in moved
        }

    def metrics(self, version: int) -> dict[str, int]:
        infos = [item for item in self.commits[version] if isinstance(item, CommitInfo)]
        said = codec.wire_fields(infos[0]).get("operationMetrics") or {}
        return {name: int(value) for name, value in said.items()}

    @property
    def _metadata(self) -> Metadata:
        every = [item for actions in self.commits for item in actions]
        return next(item for item in reversed(every) if isinstance(item, Metadata))

    def _read(self, add: AddFile, *, has_kind: bool = False) -> list[tuple[Any, ...]]:
        metadata = self._metadata
        schema = parse_schema(metadata.schema_string)
        if has_kind:
            kind = replace(schema.fields[-1], name="_change_type")
            schema = type(schema)((*schema.fields, kind))
        names = metadata.partition_columns
        store = open_store(self.place)
        parts = read_files(store, [add], schema=schema, partition_columns=names)
        return [tuple(item.values()) for part in parts for item in part.to_pylist()]


def _of_changes(action: CdcFile) -> AddFile:
    return AddFile(
        path=action.path,
        size=action.size,
        modification_time=0,
        partition_values=action.partition_values,
    )


def log_at(place: Path) -> Log:
    """The log of a plain Delta table."""
    found = sorted((place / "_delta_log").glob("*[0-9].json"))
    commits = [codec.decode_commit(path.read_bytes(), source=path.name) for path in found]
    return Log(place.as_uri(), [list(actions) for actions in commits])


class Ours:
    """A table of the lake; `metrics` are those of the last operation."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.metrics: Mapping[str, int] = {}

    def log(self) -> Log:
        commits = [list(change.actions) for change in self.table.changes(0)]
        return Log(self.table.location, commits)

    def run(self, operation: Any) -> bool:
        """Do it; whether there is a new version."""
        before = self.table.version
        try:
            done = self._do(operation)
        except ValidationError as error:
            if "several rows" not in str(error):
                raise
            raise RefusedError from error
        self.metrics = done.metrics
        if self.table.version == before:
            return False
        if operation[0] not in ("append", "optimize"):
            # Small appends keep theirs out of the commit, optimize has a commit for each bin.
            assert self.log().metrics(self.table.version) == self.metrics
        return True

    def _do(self, operation: Any) -> Any:
        match operation:
            case ("append", rows):
                return self.table.append(batch(rows))
            case ("overwrite", condition, rows):
                return self.table.overwrite(batch(rows), condition)
            case ("optimize",):
                return self.table.optimize()
        return run_from_arrow(self.table, operation)


class OurSpark(Ours):
    """The same through Spark."""

    def __init__(self, db: Any, table: Any) -> None:
        super().__init__(table)
        self._db = db

    def _do(self, operation: Any) -> Any:
        table, name = self._db.table(self.table.name), self.table.name
        match operation:
            case ("append", rows):
                return self._db.write(self._frame(rows), name)
            case ("overwrite", condition, rows):
                frame = self._frame(rows)
                return self._db.write(frame, name, mode="overwrite", replace_where=condition)
            case ("optimize",):
                return table.optimize().executeCompaction()
            case ("delete", condition):
                return table.delete(where(condition, ""))
            case ("update", condition, values):
                return table.update(where(condition, ""), expressions(values))
            case ("merge", merge):
                source = self._frame(merge["source"]).alias("s")
                return built(table.alias("t").merge(source, merge["on"]), merge).execute()
        raise AssertionError(operation)

    def _frame(self, rows: Any) -> Any:
        return self._db.spark.createDataFrame(rows, SCHEMA).coalesce(1)


class Stock:
    """A plain Delta table that stock Delta alone changes, once it is made of ours."""

    def __init__(self, spark: Any, place: Path, like: Any) -> None:
        self._spark = spark
        self._place = place
        self._name = f"delta.`{place}`"
        self.metrics: Mapping[str, int] = {}
        # Whether a row of the table could match any row at all in the last merge.
        self.could_match = True
        files = Path(like.location.removeprefix("file://"))
        log = place / "_delta_log"
        shutil.copytree(files, place, ignore=shutil.ignore_patterns("_delta_log", "*.crc"))
        log.mkdir()
        lines = b"\n".join(codec.encode(item) for item in _plain(Log("", like_commits(like))))
        (log / f"{0:020}.json").write_bytes(lines + b"\n")

    def log(self) -> Log:
        return log_at(self._place)

    def run(self, operation: Any) -> bool:
        before = len(self.log().commits)
        if operation[0] == "merge":
            can = MAY_MATCH[operation[1]["on"]]
            self.could_match = any(map(can, self.log().rows()))
        try:
            self._do(operation)
        except Exception as error:
            if "DELTA_MULTIPLE_SOURCE_ROW_MATCHING" in str(error):
                raise RefusedError from error
            if STOCK_FAILS in str(error):
                reject()
            raise
        log = self.log()
        assert len(log.commits) <= before + 1
        if len(log.commits) == before:
            return False
        self.metrics = log.metrics(before)
        return True

    def _do(self, operation: Any) -> None:
        match operation:
            case ("append", rows):
                self._write(rows).mode("append").save(str(self._place))
            case ("overwrite", condition, rows):
                writer = self._write(rows).mode("overwrite")
                if condition is not None:
                    writer = writer.option("replaceWhere", condition)
                writer.save(str(self._place))
            case ("optimize",):
                self._spark.sql(f"OPTIMIZE {self._name}")
            case ("delete", condition):
                only = f" WHERE {where(condition, '')}" if condition else ""
                self._spark.sql(f"DELETE FROM {self._name}{only}")
            case ("update", condition, values):
                only = f" WHERE {where(condition, '')}" if condition else ""
                self._spark.sql(f"UPDATE {self._name} SET {_assigned(values, '')}{only}")
            case ("merge", merge):
                source = self._spark.createDataFrame(merge["source"], SCHEMA).coalesce(1)
                source.createOrReplaceTempView("made_up")
                self._spark.sql(_as_sql(self._name, merge))

    def _write(self, rows: Any) -> Any:
        return self._spark.createDataFrame(rows, SCHEMA).coalesce(1).write.format("delta")


def like_commits(table: Any) -> list[list[Action]]:
    return [list(change.actions) for change in table.changes(0)]


def _plain(log: Log) -> list[Action]:
    """The first commit of a table with the same rows that no fence protects."""
    first = [item for item in log.commits[0] if not isinstance(item, AddFile)]
    made: list[Action] = []
    for action in first:
        if isinstance(action, Protocol):
            features = [set(action.reader_features or ()), set(action.writer_features or ())]
            readers, writers = (sorted(found - {FENCE, "inCommitTimestamp"}) for found in features)
            made.append(
                replace(
                    action,
                    reader_features=None if action.reader_features is None else tuple(readers),
                    writer_features=tuple(writers),
                )
            )
        elif isinstance(action, Metadata):
            kept = {FEED, VECTORS} & set(action.configuration)
            # Checkpoints would only cost time.
            properties = {"delta.checkpointInterval": "1000", **dict.fromkeys(kept, "true")}
            made.append(replace(action, configuration=properties))
    return [*made, *log.live()]


def must_agree(ours: Ours, stock: Stock, operation: Any, *, same_files: bool) -> None:
    """Every metric that stock tells is told here too, with its value where that has one."""
    for name, value in stock.metrics.items():
        if "TimeMs" in name:
            continue
        assert name in ours.metrics, (name, operation)
        if _is_of_files(name, operation[0]) and not same_files:
            continue
        if name == "numRemovedFiles" and operation[0] == "overwrite":
            # Stock marks rows with vectors where there are such, and keeps the file.
            continue
        is_merge = operation[0] == "merge" and name in _OF_COPIES
        if is_merge and (operation[1]["absent"] or operation[1]["lost"]):
            # Unless every clause is for matches, stock rewrites files of which nothing changes.
            assert ours.metrics[name] <= value, (name, operation, stock.metrics, ours.metrics)
            continue
        if not any(word in name for word in _OF_WRITERS):
            expected = value
            if name == "numSourceRows" and value == 0 and not stock.could_match:
                # A broadcast join with nothing on the table's side asks the source for no row;
                # stock counts again only if the table itself is empty.
                expected = len(operation[1]["source"])
            assert ours.metrics[name] == expected, (name, operation, stock.metrics, ours.metrics)


def _is_of_files(name: str, verb: str) -> bool:
    """Whether a metric depends on which rows share a file."""
    if name == "numOutputRows":
        # It counts rows that are written again.
        return verb != "append"
    return any(word in name for word in _OF_FILES)


def _assigned(values: Any, alias: str) -> str:
    return ", ".join(f"{key} = {value}" for key, value in expressions(values, alias).items())


def _as_sql(table: str, merge: Any) -> str:
    def when(side: str, condition: Any, alias: str) -> str:
        return f" WHEN {side}" + (f" AND {where(condition, alias)}" if condition else "")

    text = f"MERGE INTO {table} t USING made_up s ON {merge['on']}"
    for verb, condition, values in merge["matched"]:
        does = {"delete": "DELETE", "update all": "UPDATE SET *"}.get(
            verb, f"UPDATE SET {_assigned(values, 's.')}"
        )
        text += f"{when('MATCHED', condition, 't.')} THEN {does}"
    for verb, condition, values in merge["absent"]:
        given = expressions(values, "s.")
        does = "INSERT *"
        if verb == "insert":
            does = f"INSERT ({', '.join(given)}) VALUES ({', '.join(given.values())})"
        text += f"{when('NOT MATCHED', condition, 's.')} THEN {does}"
    for verb, condition, values in merge["lost"]:
        does = "DELETE" if verb == "delete" else f"UPDATE SET {_assigned(values, 't.')}"
        text += f"{when('NOT MATCHED BY SOURCE', condition, 't.')} THEN {does}"
    return text


__all__ = [
    "ARROW", "FEED", "SCHEMA", "VECTORS", "Log", "OurSpark", "Ours", "RefusedError", "Stock",
    "batch", "every_operation", "must_agree", "row",
]  # fmt: skip
