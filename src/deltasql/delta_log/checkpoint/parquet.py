"""Reads the Parquet files of checkpoints: opens them, counts by their footers, decodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from deltasql.data.reading.footer import ParquetFile, open_parquet
from deltasql.delta_log.names import LOG, SIDECARS
from deltasql.errors import DeltaSqlError, LogFormatError
from deltasql.objectstore import ObjectStore
from deltasql.spec import codec
from deltasql.spec.actions import Action

# Structs in an action, whose absent fields are null in Parquet.
_STRUCTS: Final = ("deletionVector", "format")

_BUFFER: Final = 2 * 1024 * 1024


@contextmanager
def opened(
    objects: ObjectStore, name: str, failure: Callable[[str], DeltaSqlError]
) -> Iterator[ParquetFile]:
    """A file of the log; `failure` makes the error for an unreadable one from its cause."""
    with objects.open_input(LOG + name) as source:
        try:
            # Others write all files as one row group, which must not be held as a whole.
            with open_parquet(source, pre_buffer=False, buffer_size=_BUFFER) as file:
                yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise failure((str(error).splitlines() or [type(error).__name__])[0]) from None


def values_in(file: ParquetFile, path: str) -> int:
    """In how many rows a column has a value, by the footer; all rows if it does not say."""
    footer = file.metadata
    places = [at for at in range(footer.num_columns) if footer.schema.column(at).path == path]
    count = 0
    for index, group in enumerate(file.statistics(places)):
        rows = footer.row_group(index).num_rows
        for found in group.values():
            known = found.nulls is not None and 0 <= found.nulls <= rows
            count += rows - (found.nulls if known else 0)
    return count


def decoded(kind: str, batch: pa.StructArray, source: str) -> Iterator[Action]:
    """The actions of one kind in a batch, one by one; null rows are skipped."""
    for fields in batch.drop_null().to_pylist(maps_as_pydicts="strict"):
        known = _present(fields)
        for name in _STRUCTS:
            if name in known:
                known[name] = _present(known[name])
        yield codec.from_wire({kind: known}, source=source)


def sidecar_name(sidecar: Any, source: str) -> str:
    """The name, relative to the log, of the sidecar that an action names."""
    match sidecar:
        case {"path": str(path)} if path:
            return f"{SIDECARS}/{unquote(path)}"
    raise LogFormatError(
        f"{source}: a sidecar action lacks its path",
        cause=f"found {sidecar!r:.200}",
        remedy="restore the checkpoint from a copy",
    )


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
