"""The same statements on a lake and on stock Delta: same rows, same schema, same conditions."""

from __future__ import annotations

import pytest

from tests.spark.sql.cases import CASES
from tests.spark.sql.feature_cases import FEATURE_CASES
from tests.spark.sql.further_cases import FURTHER_CASES
from tests.spark.sql.recorded import RECORDS, StockAnswers, plain

ALL_CASES = (*CASES, *FEATURE_CASES, *FURTHER_CASES)


@pytest.fixture(scope="module")
def answers():
    known = StockAnswers()
    yield known
    known.end()


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_as_on_stock_delta(case, spark, ours, theirs, answers):
    for key, value in case.confs.items():
        spark.conf.set(key, value)
    try:
        expected = answers.answer(case, lambda: _outcomes(theirs, case))
        # Who records asks stock Delta alone.
        found = expected if RECORDS else plain(_outcomes(ours, case))
    finally:
        for key in case.confs:
            spark.conf.unset(key)
    assert found == expected


def _outcomes(side, case):
    names = side.names()
    for statement in case.setup:
        made = side.run(statement, names)
        assert made.condition is None, (statement, made)
    outcome = side.run(case.statement, names)
    told = [side.told(names[table]) for table in "tu"]
    checked = side.run(case.check, names)
    if not case.is_compared:
        assert outcome.condition is None, outcome
        return checked, told
    return outcome, checked, told
