"""What validation says of a commit: good or bad, and why."""

from dataclasses import replace

import pytest

from deltasql.errors import ValidationError
from deltasql.log.validation.commits import validate_commit
from deltasql.spec.schema import StructType
from tests.unit.actions_model import SCHEMA, state

PLAIN = state()
BY_DAY = state(by=("day",))
WITH_VECTORS = state(delta_enableDeletionVectors="true")
TRACKED = state(features=("rowTracking",))
MAPPED = StructType(
    tuple(
        replace(
            field,
            metadata={
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": f"col-{number}",
            },
        )
        for number, field in enumerate(SCHEMA.fields, start=1)
    )
)
MAPPING = {"delta_columnMapping_mode": "name", "delta_columnMapping_maxColumnId": "3"}


def good(*actions, at=PLAIN, **more):
    validate_commit(actions, at, **more)


def bad(*actions, at=PLAIN, match=None, error=ValidationError, **more):
    with pytest.raises(error, match=match) as caught:
        validate_commit(actions, at, **more)
    assert caught.value.remedy
    return caught.value


def first(schema=SCHEMA, *, by=(), features=(), **properties):
    """The two actions of a version 0."""
    found = state(schema, by=by, features=features, **properties)
    return found.protocol, found.metadata
