"""Tables as other writers leave them, made here: with delta-rs, or line by line and with pyarrow.

What the conformance tables beside a checkout have (tests/conformance), a bare clone
has in these. Nothing is written by deltasql, but for the bitmaps of deletion vectors. A form fills
a folder and says what a right reader finds in it; `REFUSED` are those that must not be taken in.
"""

from tests.adoption.forms import by_delta_rs, checkpoints, features, refused
from tests.adoption.forms.writing import FORMS, NOT_BY_DELTA_RS, REFUSED

__all__ = [
    "FORMS", "NOT_BY_DELTA_RS", "REFUSED", "by_delta_rs", "checkpoints", "features", "refused",
]  # fmt: skip
