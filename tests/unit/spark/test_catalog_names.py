"""Names as a session spells them, and what the history says of a table's place."""

from __future__ import annotations

import pytest

from deltasql.spark.catalog.fitting import told_parameters
from deltasql.spark.catalog.spelling import meant
from deltasql.spec.actions import CommitInfo


@pytest.mark.parametrize(
    ("name", "any_case", "found"),
    [
        ("sales.orders", False, "sales.orders"),
        ("Sales.Orders", True, "sales.orders"),
        ("Sales.Orders", False, None),
        # Of two that differ in case alone, only the exact one.
        ("a.T", True, "a.T"),
        ("A.t", True, None),
        ("nowhere", True, None),
    ],
)
def test_the_one_that_is_meant(name, any_case, found):
    assert meant(name, ["sales.orders", "a.t", "a.T"], any_case=any_case) == found


def test_a_table_outside_of_the_lakes_location_is_not_managed():
    made = CommitInfo(operation_parameters={"isManaged": "false", "partitionBy": "[]"})
    assert told_parameters(made, managed=True) == {"isManaged": "true", "partitionBy": "[]"}
    assert told_parameters(made, managed=False)["isManaged"] == "false"
    # Only of operations that say so.
    write = CommitInfo(operation_parameters={"mode": "Append"})
    assert told_parameters(write, managed=True) == {"mode": "Append"}
    assert told_parameters(CommitInfo(), managed=True) == {}
