"""Whether a location can be used: an object is written, listed, read and deleted there."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from deltasql.errors import StoreError
from deltasql.objectstore import ObjectStore
from deltasql.settings.object_store import SCHEMES

_NAME: Final = "_deltasql_probe"
_BYTES: Final = b"deltasql was here, and could not delete this; it may go\n"
# The right that each step needs, by the kind of the store; see docs/permissions.md.
_RIGHTS: Final = {
    "s3": {
        "write": "s3:PutObject",
        "read": "s3:GetObject",
        "list": "s3:ListBucket",
        "delete": "s3:DeleteObject",
    },
    "gcs": {
        "write": "storage.objects.create",
        "read": "storage.objects.get",
        "list": "storage.objects.list",
        "delete": "storage.objects.delete",
    },
    "azure": {
        "write": "blobs/write and blobs/add/action (Storage Blob Data Contributor)",
        "read": "blobs/read (Storage Blob Data Reader)",
        "list": "blobs/read (Storage Blob Data Reader)",
        "delete": "blobs/delete (Storage Blob Data Contributor)",
    },
}


def probe(objects: ObjectStore) -> None:
    """Write, list, read and delete an object; raises a `StoreError` that names what is missing."""
    name = f"{_NAME}/{uuid.uuid4().hex}"
    _step("write", objects, lambda: objects.put_if_absent(name, _BYTES))
    try:
        _step("read", objects, lambda: _read_back(objects, name))
        _step("list", objects, lambda: _listed(objects, name))
        _step("write", objects, lambda: _written_once(objects, name))
    finally:
        _step("delete", objects, lambda: objects.delete([name]))


def _step(what: str, objects: ObjectStore, do: Callable[[], object]) -> None:
    try:
        do()
    except StoreError as error:
        right = _RIGHTS.get(SCHEMES.get(urlsplit(objects.location).scheme, ""), {}).get(what)
        needed = f"; to {what} it needs {right}" if right else ""
        raise replace(
            error,
            problem=f"the location {objects.location} can't be used: this process can't {what} "
            "objects there",
            cause=error.cause or error.problem,
            remedy=(error.remedy or "see docs/permissions.md") + needed,
        ) from None


def _read_back(objects: ObjectStore, name: str) -> None:
    found = objects.read(name)
    if found != _BYTES:
        raise StoreError(
            "the bytes read are not the bytes written",
            cause=f"{len(_BYTES)} bytes were written, and {len(found)} different ones were read",
            remedy="something in between changes objects: connect to the store directly",
        )


def _listed(objects: ObjectStore, name: str) -> None:
    if name not in [item.path for item in objects.list(_NAME)]:
        raise StoreError(
            "a listing lacks an object that was just written",
            cause="the store is not consistent, or there is a cache in front of it",
            remedy="connect to the store directly",
        )


def _written_once(objects: ObjectStore, name: str) -> None:
    """The mirror needs a store that refuses to write a name twice."""
    if objects.put_if_absent(name, b"twice"):
        raise StoreError(
            "the store lets two writers create the same object",
            cause="it ignores conditional writes (If-None-Match)",
            remedy="use a store that has them: docs/storage.md lists which",
        )
