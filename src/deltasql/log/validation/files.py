"""Whether a commit may contain its file actions. On the hot path: up to 100,000 of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import orjson

from deltasql.errors import LogFormatError, ValidationError
from deltasql.log.state import TableState
from deltasql.log.validation.values import MAX_TEXT, check_json, check_text, check_texts
from deltasql.spec.actions import AddFile, CdcFile, DeletionVector, PartitionValues, RemoveFile
from deltasql.spec.partition_values import UnrepresentableValueError, parse_value
from deltasql.spec.paths import LOG_FOLDER, check_new_path, check_path, is_plain
from deltasql.spec.schema import Primitive

MAX_PATH = 64 * 1024
# What JSON numbers hold exactly, and far beyond any store.
MOST_BYTES = 2**53
_Z85_UUID = 20
PathCheck: TypeAlias = Callable[[str], None]


class FileChecks:
    """What a commit's files must fit, and what was seen of them so far."""

    def __init__(self, table: TableState, *, append_only: bool) -> None:
        self._partitions = table.partition_types
        self._names = table.partition_types.keys()
        self._has_vectors = table.has_deletion_vectors
        self._has_row_ids = "rowTracking" in table.writer_features
        self._counts_rows = table.row_tracking
        self._append_only = append_only
        self._known_values: set[tuple[tuple[str, str | None], ...]] = set()
        self._added: dict[str, str] = {}
        self._removed: dict[str, str] = {}
        # Added paths that no new file may have; a file that others wrote may still get a new
        # vector.
        self._odd: dict[str, ValidationError] = {}

    def add(self, add: AddFile) -> None:
        """Check one add, and that it is the only one of its path (rule 6)."""
        path = add.path
        if len(path) > MAX_PATH or not is_plain(path) or LOG_FOLDER in path:
            self._check_new_path(path)
        if path in self._added:
            raise _twice("added", path)
        vector = add.deletion_vector
        self._added[path] = "" if vector is None else vector.unique_id
        _check_size(add.size, path)
        if add.modification_time < 0:
            raise _negative(path, "modificationTime")
        values = add.partition_values
        if values or self._partitions:
            self._check_partition(values, path)
        rows = None if add.stats is None else _check_stats(add.stats, path)
        if rows is None and self._counts_rows and add.base_row_id is None:
            raise _uncounted(path, "row tracking numbers its rows")
        if vector is not None:
            self._check_vector(vector, path, check_new_path)
            if rows is None:
                raise _uncounted(
                    path, "a file with a deletion vector must say how many physical rows it has"
                )
        if add.base_row_id is not None or add.default_row_commit_version is not None:
            self._check_row_ids(add)
        if add.tags or add.extra or add.clustering_provider is not None:
            _check_rest(add, path)
            check_text(add.clustering_provider or "", f"add {path!r:.200}")

    def remove(self, remove: RemoveFile) -> None:
        """Check one remove, and that it is the only one of its path (rule 6).

        Its partition values may be older than the table's partitioning.
        """
        path = remove.path
        _check_path(path)
        if path in self._removed:
            raise _twice("removed", path)
        self._removed[path] = remove.dv_id
        if remove.data_change and self._append_only:
            raise ValidationError(
                f"{path!r:.200} can't be removed",
                cause="the table is append-only (delta.appendOnly): its rows stay",
                remedy="only rearrange rows (dataChange=false), or set the property to false first",
                path=path,
            )
        if min(remove.size or 0, remove.deletion_timestamp or 0) < 0:
            raise _negative(path, "size or deletionTimestamp")
        if remove.extended_file_metadata and (
            remove.partition_values is None or remove.size is None
        ):
            raise ValidationError(
                f"the remove of {path!r:.200} lacks partitionValues or size",
                cause="extendedFileMetadata=true promises both",
                remedy="give both, as RemoveFile.of does, or leave the flag out",
                path=path,
            )
        if remove.partition_values:
            check_texts(remove.partition_values, f"remove {path!r:.200}")
        if remove.stats is not None:
            check_text(remove.stats, f"remove {path!r:.200}")
        if remove.deletion_vector is not None:
            self._check_vector(remove.deletion_vector, path)
        if remove.base_row_id is not None or remove.default_row_commit_version is not None:
            self._check_row_ids(remove)
        if remove.tags or remove.extra:
            _check_rest(remove, path)

    def cdc(self, cdc: CdcFile) -> None:
        """Check one file of row changes."""
        path = cdc.path
        _check_path(path, check_new_path)
        if cdc.data_change:
            raise ValidationError(
                f"cdc {path!r:.200} says dataChange=true",
                cause="the rows of change files are no part of the table",
                remedy="set dataChange to false",
                path=path,
            )
        _check_size(cdc.size, path)
        if cdc.partition_values or self._partitions:
            self._check_partition(cdc.partition_values, path)
        if cdc.tags or cdc.extra:
            _check_rest(cdc, path)

    def finish(self) -> None:
        """Check what concerns the whole commit: no add and remove of one logical file."""
        for path, error in self._odd.items():
            if path not in self._removed:
                raise error
        if not self._removed:
            return
        for path in self._added.keys() & self._removed.keys():
            if self._added[path] == self._removed[path]:
                raise added_and_removed(path)

    def _check_new_path(self, path: str) -> None:
        try:
            _check_path(path, check_new_path)
        except ValidationError as error:
            _check_path(path)
            self._odd[path] = error

    def _check_partition(self, values: PartitionValues, path: str) -> None:
        key = tuple(values.items())
        if key in self._known_values:
            return
        if values.keys() != self._names:
            raise ValidationError(
                f"{path!r:.200} has values for {_names(values)}",
                cause=f"the table is partitioned by {_names(self._names)}",
                remedy="give every partition column a value, by its physical name",
                path=path,
            )
        for name, text in values.items():
            if text is not None:
                check_text(text, f"the partition value of {name!r:.80}")
                self._check_partition_value(name, text, path)
        self._known_values.add(key)

    def _check_partition_value(self, name: str, text: str, path: str) -> None:
        kind = self._partitions[name]
        try:
            # Other types can't partition a table: the check of the metadata reports that.
            if isinstance(kind, Primitive):
                parse_value(text, kind)
        except UnrepresentableValueError:
            return
        except LogFormatError as error:
            raise ValidationError(
                f"{path!r:.200} has no value for the partition column {name!r:.80}",
                cause=error.problem,
                remedy="write the value as the Delta spec does for its type",
                path=path,
            ) from None

    def _check_vector(
        self, vector: DeletionVector, path: str, check: PathCheck = check_path
    ) -> None:
        if not self._has_vectors:
            raise ValidationError(
                f"{path!r:.200} has a deletion vector",
                cause="the table's protocol lacks deletionVectors, so readers would not look at it",
                remedy="set delta.enableDeletionVectors=true first",
                path=path,
            )
        fault = _vector_fault(vector, check)
        if fault:
            raise ValidationError(
                f"{path!r:.200} has a malformed deletion vector",
                cause=fault,
                remedy="describe the vector as the Delta spec does",
                path=path,
            )

    def _check_row_ids(self, file: AddFile | RemoveFile) -> None:
        if min(file.base_row_id or 0, file.default_row_commit_version or 0) < 0:
            raise _negative(file.path, "baseRowId or defaultRowCommitVersion")
        if not self._has_row_ids:
            raise ValidationError(
                f"{file.path!r:.200} has row ids",
                cause="the table's protocol lacks rowTracking",
                remedy="leave baseRowId and defaultRowCommitVersion out",
                path=file.path,
            )


def _check_path(path: str, check: PathCheck = check_path) -> None:
    if len(path) > MAX_PATH:
        raise ValidationError(
            f"the path {path[:80]!r}… is too long",
            cause=f"it has {len(path)} characters; the limit is {MAX_PATH}",
            remedy="object stores allow about a thousand bytes",
        )
    check(path)
    if not path.isascii():
        check_text(path, f"the path {path!r:.200}")


def _check_stats(stats: str, path: str) -> int | None:
    """The number of physical rows, if the stats have it."""
    if "\0" in stats or len(stats) > MAX_TEXT:
        check_text(stats, f"the stats of {path!r:.200}")
    try:
        found: Any = orjson.loads(stats)
    except ValueError as error:
        raise _bad_stats(path, str(error)) from None
    if type(found) is not dict:
        raise _bad_stats(path, f"found {stats:.80}")
    get = found.get
    if not (
        type(get("minValues", found)) is dict
        and type(get("maxValues", found)) is dict
        and type(get("nullCount", found)) is dict
    ):
        raise _bad_stats(path, "minValues, maxValues or nullCount is not an object")
    if "numRecords" not in found:
        return None
    rows = found["numRecords"]
    if type(rows) is not int or not 0 <= rows < 2**63:
        raise _bad_stats(path, f"numRecords is {rows!r:.80}, not a number of rows")
    return rows


def _vector_fault(vector: DeletionVector, check: PathCheck) -> str:
    check_text(vector.path_or_inline_dv, "deletionVector.pathOrInlineDv")
    check_json(vector.extra, "deletionVector")
    kind, place = vector.storage_type, vector.path_or_inline_dv
    if kind not in ("u", "i", "p"):
        return f"storageType is {kind!r:.80}, and not u, i or p"
    if not place:
        return "pathOrInlineDv is empty"
    smallest = min(
        vector.size_in_bytes, vector.cardinality, vector.offset or 0, vector.max_row_index or 0
    )
    if smallest < 0:
        return "sizes, counts and offsets are not negative"
    if kind == "p":
        check(place)
    if kind == "u":
        if len(place) < _Z85_UUID:
            return "pathOrInlineDv is shorter than an encoded uuid"
        if place[:-_Z85_UUID]:
            check(place[:-_Z85_UUID])
    return ""


def _check_rest(file: AddFile | RemoveFile | CdcFile, path: str) -> None:
    where = f"the action of {path!r:.200}"
    if file.tags:
        check_texts(file.tags, where)
    if file.extra:
        check_json(file.extra, where)


# --- errors ---------------------------------------------------------------------------


def _names(names: Any) -> str:
    return ", ".join(f"{name!r:.80}" for name in sorted(names)) or "nothing"


def added_and_removed(path: str) -> ValidationError:
    """The error for a commit that adds and removes one logical file."""
    return ValidationError(
        f"{path!r:.200} is added and removed in one commit",
        cause="the actions of a commit have no order, so it is undefined which one counts",
        remedy="leave one of them out; a new deletion vector makes it another file",
        path=path,
    )


def _twice(verb: str, path: str) -> ValidationError:
    return ValidationError(
        f"{path!r:.200} is {verb} twice in one commit",
        cause="a commit has at most one add and one remove of a path",
        remedy=f"pass the action once; if two files were meant, one {verb} path is wrong",
        path=path,
    )


def _negative(path: str, fields: str) -> ValidationError:
    return ValidationError(
        f"{path!r:.200} has a negative {fields}",
        cause="sizes are bytes, times milliseconds since 1970, ids start at 0",
        remedy="correct the value",
        path=path,
    )


def _check_size(size: int, path: str) -> None:
    if size < 0:
        raise _negative(path, "size")
    if size > MOST_BYTES:
        raise ValidationError(
            f"{path!r:.200} can't have {size} bytes",
            cause=f"no store has files of more than {MOST_BYTES}; sums of them would overflow",
            remedy="give the size of the file",
            path=path,
        )


def _uncounted(path: str, cause: str) -> ValidationError:
    return ValidationError(
        f"{path!r:.200} has no numRecords in its stats",
        cause=cause,
        remedy="write stats with numRecords",
        path=path,
    )


def _bad_stats(path: str, cause: str) -> ValidationError:
    return ValidationError(
        f"the stats of {path!r:.200} are malformed",
        cause=cause,
        remedy="write them as the text of a JSON object, or leave them out",
        path=path,
    )
