"""The same statements on a lake and on stock Delta: same rows, same schema, same conditions."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tests.spark.sql.answers import StockAnswers
from tests.spark.sql.cases import CASES
from tests.spark.sql.feature_cases import FEATURE_CASES
from tests.spark.sql.further_cases import FURTHER_CASES

ALL_CASES = (*CASES, *FEATURE_CASES, *FURTHER_CASES)


@pytest.fixture(scope="module")
def answers():
    found = StockAnswers()
    yield found
    found.save()


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_as_on_stock_delta(case, spark, ours, theirs, answers):
    for key, value in case.confs.items():
        spark.conf.set(key, value)
    try:
        answers.check(case, _outcomes(ours, case), lambda: _outcomes(theirs, case))
    finally:
        for key in case.confs:
            spark.conf.unset(key)


def test_every_case_is_a_statement():
    """One that neither side can parse would compare nothing."""
    known = StockAnswers()
    for case in ALL_CASES:
        conditions = [item["condition"] for item in known.of(case) if item is not None]
        assert "PARSE_SYNTAX_ERROR" not in conditions, case.name


def _outcomes(side, case):
    """As JSON has it."""
    with side.tables(case.setup, _key(case)) as names:
        outcome = side.run(case.statement, names)
        told = [side.told(names[table]) for table in "tu"]
        checked = side.run(case.check, names)
    if not case.is_compared:
        assert outcome.condition is None, outcome
    found = {"checked": asdict(checked), "told": told}
    if case.is_compared:
        found["outcome"] = asdict(outcome)
    return json.loads(json.dumps(found))


def _key(case):
    """Which cases may share tables that none has changed; None where more may change than those."""
    changes_more = "{word}" in case.statement or case.statement.startswith(("VACUUM", "FSCK"))
    return None if changes_more or not case.setup else tuple(case.confs.items())
