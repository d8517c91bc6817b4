"""Objects whose bytes are not as expected: were they read to their end?"""

from __future__ import annotations

from deltasql.errors import StoreError
from deltasql.objectstore.store import ObjectStore


def must_be_whole(objects: ObjectStore, path: str, content: bytes) -> None:
    """Raise a transient `StoreError` if the object is longer, or shorter, than what was read of it.

    Ask before an object with other bytes than ours is called foreign: an answer may break off
    without an error.
    """
    if objects.size(path) != len(content):
        raise StoreError(
            f"can't read the object {path!r}",
            cause=f"it ended after {len(content)} bytes",
            remedy="nothing to do: it is retried",
            path=path,
            is_transient=True,
        )
