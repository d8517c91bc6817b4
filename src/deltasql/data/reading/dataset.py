"""The files of a table as a PyArrow dataset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from deltasql.data.arrow_schema import to_arrow
from deltasql.data.reading.deletion import find_object
from deltasql.errors import UnsupportedFeatureError
from deltasql.log.state import TableState
from deltasql.objectstore import ObjectStore
from deltasql.spec.actions import AddFile
from deltasql.spec.partition_values import parse_value, text_in
from deltasql.spec.schema import Primitive

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def dataset_of(objects: ObjectStore, state: TableState, files: Iterable[AddFile]) -> ds.Dataset:
    """The files as a dataset; partition values come from the log."""
    import pyarrow.dataset as ds
    import pyarrow.fs

    if state.column_mapping != "none":
        raise _refused("the table maps its columns")
    # Spark may write times as 96 bits, which as nanoseconds would not reach beyond the year 2262.
    options = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
    system, form = pyarrow.fs.LocalFileSystem(), ds.ParquetFileFormat(read_options=options)
    fragments = []
    for add in files:
        if add.deletion_vector is not None:
            raise _refused(f"{add.path} has a deletion vector")
        store, key = find_object(objects, add.path)
        where = urlsplit(store.location)
        if where.scheme not in ("", "file"):
            raise _refused(f"the table is in {where.scheme}")
        path = f"{unquote(where.path).rstrip('/')}/{key}"
        condition = _condition(state, add)
        fragments.append(form.make_fragment(path, system, partition_expression=condition))
    return ds.FileSystemDataset(fragments, to_arrow(state.schema), form, system)


def _condition(state: TableState, add: AddFile) -> Any:
    import pyarrow.dataset as ds

    found = ds.scalar(True)  # noqa: FBT003 - PyArrow's
    for name in state.partition_columns:
        item = state.schema.field(name)
        assert item is not None
        assert isinstance(item.type, Primitive)
        value = parse_value(text_in(add.partition_values, item.name, file=add.path), item.type)
        column = ds.field(item.name)
        if value is None:
            found &= column.is_null()
        else:
            kind = to_arrow(state.schema).field(item.name).type
            found &= column == pa.scalar(value, kind)
    return found


def _refused(cause: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "the table can't be read as a PyArrow dataset",
        cause=cause,
        remedy="use to_reader(), to_arrow() or to_batches(), which read every table",
    )
