"""Checkpoints with flipped bits: a typed error or a table, never a raw error."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltasql
from tests.sizes import FULL

TRIES = 1000 if FULL else 60


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint that a table begins with: the commits before it are gone."""
    root = tmp_path / "t"
    for number in range(4):
        rows = pa.table({"id": [number, number + 1], "p": ["a", "ü"], "v": [1.5, 2.5]})
        write_deltalake(str(root), rows, mode="append", partition_by=["p"])
    DeltaTable(str(root)).create_checkpoint()
    log = root / "_delta_log"
    for commit in sorted(log.glob("*.json"))[:-1]:
        commit.unlink()
    (found,) = log.glob("*.checkpoint.parquet")
    return found


def test_each_is_told_or_harmless(checkpoint: Path, tmp_path: Path) -> None:
    whole, chance = checkpoint.read_bytes(), random.Random(22)
    outcomes = set()
    with deltasql.connect(
        f"sqlite:///{tmp_path / 'lake.db'}", location=str(tmp_path / "l")
    ) as lake:
        for _ in range(TRIES):
            broken = bytearray(whole)
            for _ in range(chance.choice([1, 1, 2, 8])):
                broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            checkpoint.write_bytes(bytes(broken))
            try:
                lake.adopt(str(checkpoint.parents[1]), name="t", dry_run=True)
                outcomes.add("adoptable")
            except deltasql.DeltaSqlError as error:
                outcomes.add(type(error).__name__)
    assert {"adoptable", "LogFormatError"} <= outcomes
