"""The same statements on a lake and on stock Delta: same rows, same schema, same conditions."""

from __future__ import annotations

import pytest

from tests.spark.sql.cases import CASES
from tests.spark.sql.feature_cases import FEATURE_CASES
from tests.spark.sql.further_cases import FURTHER_CASES

ALL_CASES = (*CASES, *FEATURE_CASES, *FURTHER_CASES)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_as_on_stock_delta(case, spark, ours, theirs):
    for key, value in case.confs.items():
        spark.conf.set(key, value)
    try:
        found = [_outcomes(side, case) for side in (ours, theirs)]
    finally:
        for key in case.confs:
            spark.conf.unset(key)
    assert found[0] == found[1]


def _outcomes(side, case):
    with side.tables(case.setup, _key(case)) as names:
        outcome = side.run(case.statement, names)
        told = [side.told(names[table]) for table in "tu"]
        checked = side.run(case.check, names)
    if not case.is_compared:
        assert outcome.condition is None, outcome
        return checked, told
    return outcome, checked, told


def _key(case):
    """Which cases may share tables that none has changed; None where more may change than those."""
    changes_more = "{word}" in case.statement or case.statement.startswith(("VACUUM", "FSCK"))
    return None if changes_more or not case.setup else tuple(case.confs.items())
