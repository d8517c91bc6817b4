"""Remedies by cause: what a failed request of a store tells its reader to do."""

from __future__ import annotations

import pytest

from deltasql.objectstore.failures import remote_failure

ASKED = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 3 ms - "


@pytest.mark.parametrize(
    ("answer", "is_transient"),
    [
        ("Server returned non-2xx status code: 403 Forbidden", False),
        ("HTTP error: error sending request", True),
    ],
)
def test_a_client_that_found_no_credentials_is_told_to_give_some(answer, is_transient):
    """Its last resort is the machine's metadata service, which most machines don't have."""
    told = remote_failure("list", "_delta_log", "s3://bucket/lake", RuntimeError(ASKED + answer))
    assert "AWS_ACCESS_KEY_ID" in told.remedy
    assert told.is_transient is is_transient


def test_credentials_that_are_refused_are_another_cause():
    answer = "Error performing GET http://127.0.0.1:8333/b in 3 ms - status code: 403 Forbidden"
    told = remote_failure("list", "_delta_log", "s3://bucket/lake", RuntimeError(answer))
    assert "check the credentials and their rights" in told.remedy
