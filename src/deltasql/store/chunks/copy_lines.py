"""Files of a history as lines of COPY text; knows no driver, so that any process can make them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from deltasql.store.rows import Row

_SPECIAL = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def copy_line(row: Row) -> str:
    """A row in the order of `ADD_COLUMNS`, without the newline; spelled out for speed."""
    path_key, dv_key, partition_key, size, modified, records, base_row, row_version = row[:8]
    changes, low, high, nulls = row[8:12]
    texts = "\t".join([copy_text(value) for value in row[12:]])
    return (
        f"\\\\x{path_key.hex()}\t\\\\x{dv_key.hex()}\t{partition_key}\t{size}\t{modified}"
        f"\t{copy_number(records)}\t{copy_number(base_row)}\t{copy_number(row_version)}"
        f"\t{'t' if changes else 'f'}\t{_list(low)}\t{_list(high)}\t{_list(nulls)}\t{texts}"
    )


def copy_number(value: int | None) -> str:
    """A number, or null."""
    return "\\N" if value is None else str(value)


def copy_text(value: str | None) -> str:
    """A text with its special characters escaped, or null."""
    if value is None:
        return "\\N"
    # Searching for characters that are hardly ever there is quicker than mapping every character.
    if "\\" in value or "\n" in value or "\t" in value or "\r" in value:
        return value.translate(_SPECIAL)
    return value


def _list(values: Sequence[float | None] | None) -> str:
    # Python's text of a list is PostgreSQL's except for the brackets and the word for null.
    return "\\N" if values is None else f"{{{str(list(values))[1:-1]}}}".replace("None", "NULL")


def add_lines(table_id: int, adds: Iterable[Row]) -> Iterator[str]:
    """The lines of live files, each (version, *ADD_COLUMNS)."""
    start = f"{table_id}\t"
    for row in adds:
        yield f"{start}{row[0]}\t{copy_line(row[1:])}\n"
