"""`_last_checkpoint` as Spark wrote it: our checksums are its."""

import json

from deltasql.delta_log.last_checkpoint import checksum, parse_last_checkpoint


def test_rule_34_checksums_that_spark_wrote(conformance_dir):
    checked = 0
    for path in conformance_dir.rglob("_last_checkpoint"):
        try:
            fields = json.loads(path.read_bytes())
        except ValueError:
            assert parse_last_checkpoint(path.read_bytes()) is None
            continue
        assert parse_last_checkpoint(path.read_bytes()) == fields["version"]
        if "checksum" in fields:
            assert checksum(fields) == fields["checksum"], path
            checked += 1
    assert checked >= 5
