"""Logs that others wrote, decoded and replayed, against what is known of them."""

import json
import re
from pathlib import Path

import pytest

from deltasql.errors import LogFormatError
from deltasql.log.replay import Replay
from deltasql.spec import codec
from deltasql.spec.protocol import check_readable, check_well_formed
from deltasql.spec.schema import StructType, parse_schema, render_schema

COMMIT = re.compile(r"([0-9]{20})\.json")
# The fields of an add that expected.json leaves out: they differ from checkpoint to commit.
NOT_COMPARED = {"dataChange"}


@pytest.fixture(scope="module")
def expected(conformance_dir: Path):
    return json.loads((conformance_dir / "expected.json").read_text())["tables"]


def _commits(log: Path) -> dict[int, Path]:
    found = {
        int(match[1]): path for path in log.iterdir() if (match := COMMIT.fullmatch(path.name))
    }
    return dict(sorted(found.items()))


def _replayed(log: Path):
    """The state after every commit, from version 0 on."""
    replay = Replay()
    for version, path in _commits(log).items():
        replay.apply(version, codec.decode_commit(path.read_bytes(), source=path.name))
        yield version, replay


def _of_mark(expected, conformance_dir, *marks):
    """The tables whose whole log is there as JSON."""
    for name, table in expected.items():
        log = conformance_dir / "tables" / name / "_delta_log"
        if table["mark"] in marks and 0 in _commits(log):
            yield name, table, log


def test_logs_replay_as_expected(expected, conformance_dir):
    replayed = 0
    for name, table, log in _of_mark(expected, conformance_dir, "ok", "edge", "unsupported"):
        for version, replay in _replayed(log):
            if str(version) in table["versions"]:
                _compare(replay, table, table["versions"][str(version)], f"{name}@{version}")
                replayed += 1
    assert replayed > 100


def _compare(replay, table, wanted, where):
    files = [_plain(codec.wire_fields(add)) for add in replay.files.values()]
    assert _sorted(files) == _sorted([_plain(table["adds"][i]) for i in wanted["active"]]), where
    protocol, metadata = replay.table()
    check_well_formed(protocol)
    assert json.loads(codec.dumps(codec.wire_fields(protocol))) == wanted["protocol"], where
    assert metadata.schema_string == table["schemas"][wanted["schema"]], where
    meta = json.loads(codec.dumps(codec.wire_fields(metadata)))
    assert {key: meta[key] for key in wanted["meta"]} == wanted["meta"], where
    assert {name: txn.version for name, txn in replay.txns.items()} == wanted["txns"], where
    domains = {name: domain.configuration for name, domain in replay.domains.items()}
    assert domains == wanted["domains"], where
    assert len(replay.tombstones) == wanted["tombstones"], where


def _plain(add):
    return {key: item for key, item in add.items() if key not in NOT_COMPARED and item is not None}


def _sorted(files):
    return sorted(files, key=codec.dumps)


def test_corrupt_logs_are_refused(expected, conformance_dir):
    refused = 0
    for _, _, log in _of_mark(expected, conformance_dir, "corrupt"):
        with pytest.raises(LogFormatError):
            _open(log)
        refused += 1
    assert refused >= 3


def _open(log):
    for _, replay in _replayed(log):
        protocol, metadata = replay.table()
        check_well_formed(protocol)
        check_readable(protocol)
        parse_schema(metadata.schema_string)


def test_commits_decode_and_encode_to_the_same_data(expected, conformance_dir):
    for name, _, log in _of_mark(expected, conformance_dir, "ok", "edge"):
        for path in _commits(log).values():
            for line in path.read_bytes().splitlines():
                if line.strip():
                    again = json.loads(codec.encode(codec.decode(line)))
                    assert again == _without_nulls(json.loads(line)), f"{name}: {path.name}"


def _without_nulls(line):
    """Known fields that are null are absent; unknown ones stay as they are."""
    ((kind, content),) = line.items()
    shape = codec.SHAPES.get(codec.KINDS.get(kind))
    if shape is None:
        return line
    kept = {
        key: _inner(key, item)
        for key, item in content.items()
        if item is not None or key not in shape.by_wire
    }
    return {kind: _with_defaults(kind, kept)}


def _inner(key, item):
    if key != "deletionVector" or item is None:
        return item
    return {name: value for name, value in item.items() if value is not None}


def _with_defaults(kind, content):
    return {"configuration": {}, **content} if kind == "metaData" else content


def test_schemas_survive_parsing_and_printing(expected):
    seen = 0
    for name, table in expected.items():
        for text in table["schemas"].values():
            if text is None:
                continue
            schema = parse_schema(text)
            assert isinstance(schema, StructType)
            assert json.loads(render_schema(schema)) == json.loads(text), name
            assert parse_schema(render_schema(schema)) == schema
            seen += 1
    assert seen > 40
