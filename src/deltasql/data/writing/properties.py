"""How new data files are made: compression, row groups, dictionaries, statistics, Bloom filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltasql.errors import ValidationError, quoted
from deltasql.spec.schema import ArrayType, DeltaType, MapType, StructField, StructType

if TYPE_CHECKING:
    from deltasql.data.layout import Layout

# Spark's file name suffixes.
_ENDINGS = {
    "none": "", "uncompressed": "", "snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd",
    "lz4": ".lz4raw", "brotli": ".br",
}  # fmt: skip
_LEVELS = frozenset({"gzip", "zstd", "brotli"})
_ENCODINGS = (
    "PLAIN", "BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
)  # fmt: skip
_DEFAULT = "snappy"


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilter:
    """A Bloom filter for a column, sized for a number of distinct values in a row group.

    `false_positives` is the share of absent values that it may take for present ones.
    """

    distinct_values: int = 1 << 20
    false_positives: float = 0.05

    def __post_init__(self) -> None:
        _must_be_positive("distinct_values", self.distinct_values)
        is_number = isinstance(self.false_positives, int | float)
        if not is_number or not 0 < self.false_positives < 1:
            raise _refused("false_positives", self.false_positives, "a share between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProperties:
    """What differs for one column; None means as for all columns."""

    compression: str | None = None
    compression_level: int | None = None
    dictionary: bool | None = None
    statistics: bool | None = None
    encoding: str | None = None
    bloom_filter: bool | BloomFilter = False

    def __post_init__(self) -> None:
        _check_compression(self.compression, self.compression_level)
        if self.encoding is not None and self.encoding not in _ENCODINGS:
            raise _refused("encoding", self.encoding, f"one of {', '.join(_ENCODINGS)}")
        if self.encoding is not None and self.dictionary:
            raise ValidationError(
                "a column can't have both an encoding and a dictionary",
                cause="in a file it has one or the other",
                remedy="leave dictionary out",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterProperties:
    """How Parquet files are written; what is left out keeps its default.

    `row_group_size` is in rows, `data_page_size` and `dictionary_page_size` are in bytes.
    `statistics` are those in the files, by row group; which columns have bounds in the log is a
    property of the table (`delta.dataSkippingStatsColumns`). `columns` are named as the table has
    them, with dots into structs.
    """

    compression: str = _DEFAULT
    compression_level: int | None = None
    row_group_size: int | None = None
    data_page_size: int | None = None
    dictionary_page_size: int | None = None
    dictionary: bool = True
    statistics: bool = True
    bloom_filter: bool | BloomFilter = False
    columns: Mapping[str, ColumnProperties] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_compression(self.compression, self.compression_level)
        for name in ("row_group_size", "data_page_size", "dictionary_page_size"):
            if getattr(self, name) is not None:
                _must_be_positive(name, getattr(self, name))
        if not isinstance(self.columns, Mapping):
            raise _refused("columns", self.columns, "a mapping from names to ColumnProperties")
        for name, value in self.columns.items():
            if not isinstance(value, ColumnProperties):
                raise _refused(f"columns[{quoted(name)}]", value, "a ColumnProperties")

    @property
    def ending(self) -> str:
        """The suffix of file names."""
        return f"{_ENDINGS[self.compression.lower()]}.parquet"


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How the files of one write are made; None means as usual."""

    properties: WriterProperties | None = None
    target_file_size: int | None = None

    def __post_init__(self) -> None:
        if self.target_file_size is not None:
            _must_be_positive("target_file_size", self.target_file_size)


def options_of(properties: WriterProperties, layout: Layout) -> dict[str, Any]:
    """The options of pyarrow's writer for the files of a table."""
    leaves = dict(_leaves(layout))
    chosen = {path: ColumnProperties() for path in leaves.values()}
    for name, given in properties.columns.items():
        found = [path for logical, path in leaves.items() if _is_within(logical, name)]
        if not found:
            raise ValidationError(
                f"the writer's properties name an unknown column {name!r:.80}",
                cause="it is not one of the columns in the files",
                remedy="name a column of the table that does not partition it",
                column=name,
            )
        chosen |= dict.fromkeys(found, given)
    options: dict[str, Any] = {
        "compression": {
            p: _codec(c.compression or properties.compression) for p, c in chosen.items()
        },
        "use_dictionary": [
            path
            for path, column in chosen.items()
            if column.encoding is None and _or(column.dictionary, properties.dictionary)
        ],
        "write_statistics": [
            path for path, column in chosen.items() if _or(column.statistics, properties.statistics)
        ],
    }
    levels = {path: _level(column, properties) for path, column in chosen.items()}
    encodings = {path: column.encoding for path, column in chosen.items() if column.encoding}
    blooms = {
        path: _bloom(column.bloom_filter or properties.bloom_filter)
        for path, column in chosen.items()
        if column.bloom_filter or properties.bloom_filter
    }
    options |= {
        name: value
        for name, value in {
            "compression_level": {p: level for p, level in levels.items() if level is not None},
            "column_encoding": encodings,
            "bloom_filter_options": blooms,
            "data_page_size": properties.data_page_size,
            "dictionary_pagesize_limit": properties.dictionary_page_size,
        }.items()
        if value
    }
    return options


def _or(own: bool | None, general: bool) -> bool:  # noqa: FBT001
    return general if own is None else own


def _codec(name: str) -> str:
    return "none" if name.lower() == "uncompressed" else name.lower()


def _level(column: ColumnProperties, properties: WriterProperties) -> int | None:
    if column.compression is not None or column.compression_level is not None:
        return column.compression_level
    return properties.compression_level


def _bloom(given: bool | BloomFilter) -> Any:  # noqa: FBT001
    if not isinstance(given, BloomFilter):
        return True
    return {"ndv": given.distinct_values, "fpp": given.false_positives}


# --- columns ----------------------------------------------------------------------------


def _leaves(layout: Layout) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each leaf by the name that users know, and by its path in a file."""
    for position in layout.stored:
        item = layout.schema.fields[position]
        yield from _inside(item.type, (item.name.lower(),), item.physical_name)


def _inside(
    kind: DeltaType, logical: tuple[str, ...], path: str
) -> Iterator[tuple[tuple[str, ...], str]]:
    match kind:
        case StructType(fields_):
            for item in fields_:
                yield from _inside_field(item, logical, path)
        case ArrayType(element):
            yield from _inside(element, (*logical, "element"), f"{path}.list.element")
        case MapType(key, value):
            yield from _inside(key, (*logical, "key"), f"{path}.key_value.key")
            yield from _inside(value, (*logical, "value"), f"{path}.key_value.value")
        case _:
            yield logical, path


def _inside_field(
    item: StructField, logical: tuple[str, ...], path: str
) -> Iterator[tuple[tuple[str, ...], str]]:
    yield from _inside(item.type, (*logical, item.name.lower()), f"{path}.{item.physical_name}")


def _is_within(logical: tuple[str, ...], name: str) -> bool:
    """Whether a leaf is the named column or inside it."""
    folded = name.lower()
    return any(".".join(logical[: n + 1]) == folded for n in range(len(logical)))


# --- checks -----------------------------------------------------------------------------


def _check_compression(name: Any, level: int | None) -> None:
    if name is None and level is None:
        return
    if name is not None and (not isinstance(name, str) or name.lower() not in _ENDINGS):
        raise _refused("compression", name, f"one of {', '.join(_ENDINGS)}")
    if level is not None and (name is not None and name.lower() not in _LEVELS):
        raise ValidationError(
            f"{name} has no compression level", remedy=f"use one of {', '.join(sorted(_LEVELS))}"
        )


def _must_be_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _refused(name, value, "an integer of at least 1")


def _refused(name: str, value: Any, words: str) -> ValidationError:
    return ValidationError(f"{name} can't be {quoted(value)}", remedy=f"give {words}")
