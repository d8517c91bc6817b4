"""A log as read by an independent reader that shares no code with us, if one is installed.

For many files or commits, delta-rs needs far more memory than we may use. It then runs in a process
of its own, `python -m deltasql.mirror.validation.second_reader`, which takes JSON on stdin
(location, version, options), and prints a line of JSON and an Arrow stream of paths and sizes.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from deltasql.errors import MirrorError
from deltasql.secrecy import raise_alone

# Beyond these, the reader gets a process of its own.
MOST_FILES: Final = 5_000
MOST_COMMITS: Final = 500
_MODULUS: Final = 2**64
_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What the reader found about a table besides its files."""

    reader: str
    table_id: str
    columns: tuple[str, ...]
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    protocol: tuple[int, int]


@dataclass(frozen=True, slots=True)
class IndependentView:
    """A table at a version; `files` are batches of path and size, to be read once."""

    facts: TableFacts
    files: Iterable[pa.RecordBatch]

    def paths_and_sizes(self) -> Iterator[tuple[str, int]]:
        """Path and size of each file."""
        for batch in self.files:
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


@contextmanager
def independent_view(
    location: str, version: int, options: Mapping[str, str], *, files: int, commits: int
) -> Iterator[IndependentView | None]:
    """The table as delta-rs reads it; None if that is not installed.

    `files` says how many there may be, and `commits` how many have to be replayed.
    """
    if not is_installed():
        yield None
    elif files <= MOST_FILES and commits <= MOST_COMMITS:
        yield _read(location, version, options)
    else:
        with _read_apart(location, version, options) as found:
            yield found


def is_installed() -> bool:
    """Whether there is an independent reader."""
    return find_spec("deltalake") is not None


def _read(location: str, version: int, options: Mapping[str, str]) -> IndependentView:
    import deltalake

    try:
        table = deltalake.DeltaTable(location, version=version, storage_options=dict(options))
        found = pa.table(table.get_add_actions())
        metadata, protocol = table.metadata(), table.protocol()
        columns = tuple(field.name for field in table.schema().fields)
    except Exception as error:  # noqa: BLE001 - raised again, as ours
        # Its layers may raise anything; a reader that gives up is a finding, not a crash.
        raise_alone(_gave_up((str(error).splitlines() or [type(error).__name__])[0]))
    facts = TableFacts(
        reader=f"deltasql, delta-rs {deltalake.__version__}",
        table_id=str(metadata.id),
        columns=columns,
        partition_columns=tuple(metadata.partition_columns),
        properties=metadata.configuration,
        protocol=(protocol.min_reader_version, protocol.min_writer_version),
    )
    plain = pa.table(
        {
            "path": found.column("path").cast(pa.string()),
            "size": found.column("size_bytes").cast(pa.int64()),
        }
    )
    return IndependentView(facts, plain.to_batches(max_chunksize=_ROWS))


def _gave_up(cause: str) -> MirrorError:
    return MirrorError(
        "delta-rs can't read the mirror",
        cause=cause,
        remedy="see the cause; a feature that delta-rs lacks is not drift",
    )


# --- in a process of its own ----------------------------------------------------------


@contextmanager
def _read_apart(
    location: str, version: int, options: Mapping[str, str]
) -> Iterator[IndependentView]:
    question = {"location": location, "version": version, "options": dict(options)}
    with subprocess.Popen(
        [sys.executable, "-m", "deltasql.mirror.validation.second_reader"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(question).encode())
            child.stdin.close()
            answer = child.stdout.readline()
            if not answer:
                raise _gave_up(f"its process ended with exit code {child.wait()}")
            told = json.loads(answer)
            if "error" in told:
                raise _gave_up(told["error"])
            facts = TableFacts(
                **{
                    **told,
                    **{key: tuple(told[key]) for key in ("columns", "partition_columns")},
                    "protocol": (told["protocol"][0], told["protocol"][1]),
                }
            )
            yield IndependentView(facts, _batches(child.stdout))
        finally:
            child.kill()


def _batches(stream: Any) -> Iterator[pa.RecordBatch]:
    try:
        with pa.ipc.open_stream(stream) as reader:
            yield from reader
    except pa.ArrowInvalid as error:
        raise _gave_up(f"its process ended too early: {error}") from error


def _main() -> None:
    try:
        found = _read(**json.load(sys.stdin))
    except MirrorError as error:
        sys.stdout.write(json.dumps({"error": error.cause}))
        return
    sys.stdout.write(json.dumps(asdict(found.facts)) + "\n")
    sys.stdout.flush()
    schema = pa.schema([("path", pa.string()), ("size", pa.int64())])
    with pa.ipc.new_stream(sys.stdout.buffer, schema) as writer:
        for batch in found.files:
            writer.write_batch(batch)


# --- comparing ------------------------------------------------------------------------


@dataclass(slots=True)
class FilesDigest:
    """How many files there are, and a digest of their paths and sizes in any order."""

    files: int = 0
    digest: int = 0

    def take(self, found: Iterable[tuple[str, int]]) -> None:
        """Add some files."""
        digest = self.digest
        for path, size in found:
            text = f"{plain_path(path)}\0{size}".encode()
            digest += int.from_bytes(blake2b(text, digest_size=8).digest())
            self.files += 1
        self.digest = digest % _MODULUS

    def plus(self, other: FilesDigest) -> FilesDigest:
        """Both together."""
        return FilesDigest(self.files + other.files, (self.digest + other.digest) % _MODULUS)


def digest_of(batches: Iterable[pa.RecordBatch]) -> FilesDigest:
    """The digest of batches that have path and size."""
    found = FilesDigest()
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("path", "size"))
        found.take(zip(*columns, strict=True))
    return found


def digest_of_stream(stream: bytes) -> bytes:
    """The same of a stream of such batches, pickled: for other processes."""
    with pa.ipc.open_stream(stream) as reader:
        return pickle.dumps(digest_of(reader))


def plain_path(path: str) -> str:
    """A path without what readers may write differently: escapes and a scheme."""
    return (unquote(path) if "%" in path else path).rpartition("://")[2].lstrip("/")


if __name__ == "__main__":
    _main()
