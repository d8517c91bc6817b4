"""`char(n)` and `varchar(n)`: strings to Delta, with the length in the column's metadata.

Delta's writer refuses what is longer, and so do we. It leaves a shorter char as it is: Spark pads
it with blanks when reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasql.errors import SchemaMismatchError
from deltasql.spec.schema import StructType

_NOTE = "__CHAR_VARCHAR_TYPE_STRING"
_LIMITED = re.compile(r"(char|varchar)\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Limit:
    """The maximum length of the texts of one column."""

    position: int
    name: str
    kind: str
    length: int


def obstacle(schema: StructType) -> str | None:
    """Why the lengths can't be enforced here: some are inside structs, lists or maps."""
    for item in schema.fields:
        note = str(item.metadata.get(_NOTE, ""))
        if note and not _LIMITED.fullmatch(note):
            return f"column {item.name!r:.80} is {note:.80}"
    return None


def limits(schema: StructType) -> tuple[Limit, ...]:
    """The columns whose texts have a maximum length."""
    noted = ((n, item.name, item.metadata.get(_NOTE)) for n, item in enumerate(schema.fields))
    found = ((n, name, _LIMITED.fullmatch(str(note))) for n, name, note in noted if note)
    return tuple(Limit(n, name, match[1], int(match[2])) for n, name, match in found if match)


def check_lengths(
    rows: pa.Table | pa.RecordBatchReader, limited: Sequence[Limit]
) -> pa.Table | pa.RecordBatchReader:
    """Conformed rows, or `SchemaMismatchError` if a text is too long."""
    if not limited:
        return rows

    def checked(batch: Any) -> Any:
        for limit in limited:
            _check(batch.column(limit.position), limit)
        return batch

    if isinstance(rows, pa.Table):
        return checked(rows)
    return pa.RecordBatchReader.from_batches(rows.schema, (checked(batch) for batch in rows))


def _check(texts: Any, limit: Limit) -> None:
    if pc.any(pc.greater(pc.utf8_length(texts), limit.length)).as_py():
        raise SchemaMismatchError(
            f"a string is too long for the column {limit.name!r}",
            cause=f"the column is {limit.kind}({limit.length})",
            remedy="shorten the strings, or leave these rows out",
            column=limit.name,
        )
