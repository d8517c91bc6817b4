"""The adds of a checkpoint, column by column: an object for each would take twice the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.adoption.loading.outside import PathRules
from deltasql.adoption.loading.typed_stats import stats_texts
from deltasql.errors import LogFormatError
from deltasql.log.pruning.stats_columns import StatsColumn
from deltasql.log.pruning.stats_keys import KeyMaker
from deltasql.spec import codec
from deltasql.spec.partition_values import check_storable
from deltasql.store.rows import Row, key_of, partition_key_of

_LONG: Final = ("size", "modificationTime", "baseRowId", "defaultRowCommitVersion")
_TEXT: Final = ("path", "stats", "clusteringProvider")
_REQUIRED: Final = ("path", "partitionValues", "size", "modificationTime")
_KNOWN: Final = frozenset(
    {*_LONG, *_TEXT, "dataChange", "partitionValues", "tags", "deletionVector", "stats_parsed"}
)


def said_twice(name: str, what: str) -> LogFormatError:
    """The error for a checkpoint with two actions where the table has only one thing."""
    return LogFormatError(
        f"_delta_log/{name}: the checkpoint has {what} twice",
        cause="a checkpoint has one action for each file, app and domain",
        remedy="restore it from a copy, or the commit files before it",
    )


class AddReader:
    """Turns batches of adds into rows; `live` collects the keys of their files."""

    def __init__(
        self,
        version: int,
        stats_columns: Sequence[StatsColumn],
        live: set[bytes],
        paths: PathRules,
    ) -> None:
        self._version = version
        self._keys_of = KeyMaker(stats_columns).keys
        self._live = live
        self._paths = paths
        self._partitions: dict[tuple[Any, ...], tuple[str, int]] = {}

    def rows(self, batch: pa.StructArray, name: str) -> tuple[list[Row], list[Row]]:
        """The rows of a batch, each (version, *ADD_COLUMNS), and those of new partitions."""
        columns = _Columns(batch, name, self._paths)
        known = set(self._partitions)
        partitions = [self._partition(pairs, name) for pairs in columns.maps("partitionValues")]
        tags = [None if pairs is None else _json(dict(pairs)) for pairs in columns.maps("tags")]
        version, keys_of, live = self._version, self._keys_of, self._live
        look_at, source = self._paths.look_at_path, f"_delta_log/{name}"
        found: list[Row] = []
        for fields in zip(
            columns.plain("path"),
            columns.plain("size"),
            columns.plain("modificationTime"),
            columns.plain("dataChange"),
            columns.stats(),
            columns.plain("baseRowId"),
            columns.plain("defaultRowCommitVersion"),
            columns.plain("clusteringProvider"),
            partitions,
            tags,
            columns.vectors(),
            columns.extras(),
            strict=True,
        ):
            path, size, modified, change, stats, base, commit, provider = fields[:8]
            partition, tag, dv, extra = fields[8:]
            keys = keys_of(stats)
            vector, dv_key = dv
            path_key = key_of(path)
            key = path_key + dv_key
            look_at(path, source)
            if key in live:
                raise said_twice(name, f"the file {path!r:.200}")
            live.add(key)
            found.append(
                (
                    version,
                    path_key,
                    dv_key,
                    partition[1],
                    size,
                    modified,
                    keys.num_records,
                    base,
                    commit,
                    bool(change),
                    keys.min_keys,
                    keys.max_keys,
                    keys.null_counts,
                    path,
                    partition[0],
                    stats,
                    tag,
                    vector,
                    provider,
                    extra,
                )
            )
        new = [
            (key, text)
            for pairs, (text, key) in self._partitions.items()
            if pairs and pairs not in known
        ]
        return found, new

    def _partition(self, pairs: list[tuple[str, str | None]] | None, name: str) -> tuple[str, int]:
        key = tuple(pairs or ())
        found = self._partitions.get(key)
        if found is None:
            values = dict(key)
            check_storable(values, source=f"_delta_log/{name}")
            text = codec.dumps(values).decode()
            found = self._partitions[key] = (text, partition_key_of(text))
        return found


class _Columns:
    """The fields of the adds in a batch, each as a list of plain values."""

    def __init__(self, batch: pa.StructArray, name: str, paths: PathRules) -> None:
        self._name = name
        self._paths = paths
        self._length = len(batch)
        names = [field.name for field in batch.type]
        self._fields: dict[str, pa.Array] = dict(zip(names, batch.flatten(), strict=True))
        for field in _REQUIRED:
            column = self._fields.get(field)
            if column is None or column.null_count:
                raise LogFormatError(
                    f"_delta_log/{name}: add lacks {field}",
                    cause="the Delta spec requires it, even when empty",
                    remedy="restore the checkpoint from a copy, or the commit files before it",
                )
        self._check_types()

    def _check_types(self) -> None:
        wanted = {
            **dict.fromkeys(_LONG, pa.types.is_integer),
            **dict.fromkeys(_TEXT, _is_text),
            "dataChange": pa.types.is_boolean,
            "partitionValues": pa.types.is_map,
        }
        for field, check in wanted.items():
            column = self._fields.get(field)
            if column is not None and not check(column.type):
                raise LogFormatError(
                    f"_delta_log/{self._name}: add.{field} has the wrong type",
                    cause=f"found {column.type}",
                    remedy="restore the checkpoint from a copy, or the commit files before it",
                )
        for field in _TEXT:
            column = self._fields.get(field)
            if column is not None and pc.any(pc.match_substring(column, "\0")).as_py():
                raise LogFormatError(
                    f"_delta_log/{self._name}: add.{field} contains a NUL character",
                    cause="PostgreSQL can't store one",
                    remedy="rewrite the table without it, with the writer that made it",
                )

    def plain(self, field: str) -> list[Any]:
        column = self._fields.get(field)
        return [None] * self._length if column is None else column.to_pylist()

    def maps(self, field: str) -> list[list[tuple[str, str | None]] | None]:
        return self.plain(field)

    def stats(self) -> list[str | None]:
        found: list[str | None] = self.plain("stats")
        typed = self._fields.get("stats_parsed")
        if typed is None:
            return found
        return [a if a is not None else b for a, b in zip(found, stats_texts(typed), strict=True)]

    def vectors(self) -> list[tuple[str | None, bytes]]:
        """The JSON of each deletion vector and the key of its id."""
        nothing = (None, b"")
        column = self._fields.get("deletionVector")
        if column is None or column.null_count == self._length:
            return [nothing] * self._length
        return [nothing if item is None else self._vector(item) for item in column.to_pylist()]

    def _vector(self, fields: dict[str, Any]) -> tuple[str | None, bytes]:
        known = {key: value for key, value in fields.items() if value is not None}
        if not known:
            return None, b""
        vector = codec.vector_from_wire(known, source=f"_delta_log/{self._name}")
        self._paths.look_at_vector(vector, f"_delta_log/{self._name}")
        text = codec.dumps(codec.wire_fields(vector)).decode()
        return text, key_of(vector.unique_id)

    def extras(self) -> list[str | None]:
        """Fields that the spec does not know, as JSON."""
        names = [name for name in self._fields if name not in _KNOWN]
        if all(self._fields[name].null_count == self._length for name in names):
            return [None] * self._length
        columns = [self._fields[name].to_pylist(maps_as_pydicts="strict") for name in names]
        return [
            _json({n: value for n, value in zip(names, values, strict=True) if value is not None})
            for values in zip(*columns, strict=True)
        ]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _json(value: dict[str, Any]) -> str | None:
    return codec.dumps(value).decode() if value else None
