"""Logs that nobody may take in."""

from __future__ import annotations

from pathlib import Path

from deltasql.errors import LogFormatError, UnsupportedFeatureError
from tests.adoption.forms.checkpoints import classic
from tests.adoption.forms.writing import IDS, Log, ids, metadata, protocol, refused


@refused("a protocol that nobody knows", LogFormatError)
def _unknown_protocol(root: Path) -> None:
    Log(root, protocol(99, 7), metadata(IDS))


@refused("no protocol", LogFormatError)
def _no_protocol(root: Path) -> None:
    log = Log(root, metadata(IDS))
    log.commit(log.add("a.parquet", ids(1)))


@refused("a checkpoint without a protocol", LogFormatError)
def _checkpoint(root: Path) -> None:
    log = Log(root, protocol(), metadata(IDS))
    file = log.add("a.parquet", ids(1))
    log.commit(file)
    classic(log, 1, [metadata(IDS), file])
    log.cut(1)


@refused("no schema", LogFormatError)
def _no_schema(root: Path) -> None:
    bare = metadata(IDS)
    del bare["metaData"]["schemaString"]
    Log(root, protocol(), bare)


@refused("a hole in the log", LogFormatError)
def _hole(root: Path) -> None:
    log = Log(root, protocol(), metadata(IDS))
    for number in range(3):
        log.commit(log.add(f"{number}.parquet", ids(number)))
    log.name(2).unlink()


@refused("a table of a catalog", UnsupportedFeatureError)
def _catalog(root: Path) -> None:
    features = ("catalogManaged", "inCommitTimestamp")
    log = Log(root)
    first = metadata(IDS, **{"delta.enableInCommitTimestamps": "true"})
    log.commit({"commitInfo": {"inCommitTimestamp": 1}}, protocol(3, 7, *features), first)
