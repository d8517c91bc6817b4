"""The names that the change data feed has for its own columns."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import deltasql

FEED = {"delta.enableChangeDataFeed": "true"}
PLAIN = pa.schema([("id", pa.int64())])


@pytest.fixture
def lake(sqlite_url, tmp_path):
    with deltasql.connect(sqlite_url, location=(tmp_path / "lake").as_uri()) as lake:
        yield lake


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
def test_no_column_takes_them(lake, name):
    taken = pa.schema([("id", pa.int64()), (name, pa.string())])
    refused = pytest.raises(deltasql.ValidationError, match="change data feed")
    with refused:
        lake.create_table("made", taken, properties=FEED)
    late = lake.create_table("late", taken)
    metadata = late.snapshot().metadata
    with refused:
        late.commit([replace(metadata, configuration={**metadata.configuration, **FEED})])
    grown = lake.create_table("grown", PLAIN, properties=FEED)
    metadata = grown.snapshot().metadata
    schema = json.loads(metadata.schema_string)
    schema["fields"].append({"name": name, "type": "string", "nullable": True, "metadata": {}})
    with refused:
        grown.commit([replace(metadata, schema_string=json.dumps(schema))])
    assert (late.version, grown.version) == (0, 0)
    with refused:
        grown.append(pa.table({"id": [1], name: ["x"]}), schema_mode="merge")


def test_inside_a_column_they_are_names_as_any(lake):
    inner = pa.schema([("at", pa.struct([("_commit_version", pa.int64())]))])
    assert lake.create_table("t", inner, properties=FEED).version == 0
