"""Every public name of deltalake and of delta-spark's DeltaTable is on the page, and no call of
ours that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import deltalake
import pytest
from deltalake import table as deltalake_tables

import deltasql
from deltasql.lake.dml.merge_builder import MergeBuilder

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
# delta-spark is no dependency: the methods of its four classes, by its documentation.
DELTA_SPARK = [
    "toDF", "alias", "generate", "delete", "update", "merge", "vacuum", "history", "detail",
    "convertToDelta", "forPath", "forName", "create", "createIfNotExists", "replace",
    "createOrReplace", "isDeltaTable", "upgradeTableProtocol", "restoreToVersion",
    "restoreToTimestamp", "optimize", "clone", "cloneAtVersion", "cloneAtTimestamp",
    "addFeatureSupport", "dropFeatureSupport", "tableName", "location", "comment", "addColumn",
    "addColumns", "partitionedBy", "clusterBy", "property", "execute", "whenMatchedUpdate",
    "whenMatchedUpdateAll", "whenMatchedDelete", "whenNotMatchedInsert",
    "whenNotMatchedInsertAll", "whenNotMatchedBySourceUpdate", "whenNotMatchedBySourceDelete",
    "withSchemaEvolution", "where", "executeCompaction", "executeZOrderBy",
]  # fmt: skip


def _section(title: str) -> str:
    return PAGE.partition(f"## From {title}")[2].partition("\n## ")[0]


def _names(text: str) -> set[str]:
    return {name for code in re.findall(r"`([^`]+)`", text) for name in re.findall(r"\w+", code)}


def _public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def test_every_name_of_deltalake_is_there():
    wanted = {name for name in deltalake.__all__ if not name.startswith("_")}
    for kind in ("TableMerger", "TableOptimizer", "TableAlterer"):
        wanted.update(_public(getattr(deltalake_tables, kind)))
    wanted.update(_public(deltalake.DeltaTable))
    assert wanted - _names(_section("deltalake (delta-rs)")) == set()


def test_every_name_of_delta_spark_is_there():
    assert set(DELTA_SPARK) - _names(_section("delta-spark")) == set()


@pytest.mark.parametrize(("receiver", "kind"), [("t", deltasql.Table), ("lake", deltasql.Lake)])
def test_our_side_exists(receiver, kind):
    named = set(re.findall(rf"(?<![\w.\"]){receiver}\.([a-z_]\w*)", PAGE))
    # Lakes are catalogs in Spark SQL, too (lake.sales.orders), and files (lake.db).
    assert {name for name in named if not hasattr(kind, name)} <= {"sales", "db"}


def test_merges_have_the_clauses_of_both():
    theirs = {*_public(deltalake_tables.TableMerger)}
    theirs |= {name for name in DELTA_SPARK if name.startswith(("when", "withSchema"))}
    assert theirs - set(_public(MergeBuilder)) == set()
