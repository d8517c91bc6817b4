"""Whether what was read of a version is complete: the rows of expired versions are deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from deltasql.errors import VersionNotFoundError


def has_expired(version: int) -> VersionNotFoundError:
    """The error for a version that is no longer in the history."""
    return VersionNotFoundError(
        f"version {version} has expired",
        cause="delta.logRetentionDuration is over for it, and its files are no longer known",
        remedy="read a newer version; pin one that has to stay: table.pin(version)",
        version=version,
    )


def unexpired(files: pa.RecordBatchReader, version: int) -> pa.RecordBatchReader:
    """The files of a version, or `VersionNotFoundError` if it expired before they were read."""

    def checked() -> Iterator[pa.RecordBatch]:
        for batch in files:
            if batch.column("path").null_count:
                raise has_expired(version)
            yield batch

    return pa.RecordBatchReader.from_batches(files.schema, checked())
