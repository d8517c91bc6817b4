"""Names of objects: keys, and the temporary names that no listing shows."""

from __future__ import annotations

import os
import re
import uuid

from deltasql.errors import ValidationError

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_LOCK = re.compile(r"\..+\.lock")
# File systems allow names of 255 bytes, and a temporary one is 38 longer than the final one.
_MOST_BYTES = 200


def check_key(path: str) -> str:
    """The key itself; `ValidationError` if it could leave the root."""
    segments = path.split("/")
    if "" in segments or "." in segments or ".." in segments or "\0" in path:
        raise ValidationError(
            f"{path!r:.200} is not the key of an object",
            cause="a key is relative and has neither empty segments nor dots nor NUL",
            remedy="name the object by its path below the store's root",
        )
    return path


def temporary_name(path: str) -> str:
    """A unique name beside the object's: hidden, so that readers ignore it."""
    folder, slash, name = path.rpartition("/")
    short = name if len(os.fsencode(name)) <= _MOST_BYTES else name[:50]
    return f"{folder}{slash}.{short}.{uuid.uuid4().hex}.tmp"


def lock_name(path: str) -> str:
    """The file beside the object that its writers lock."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.lock"


def checksum_name(path: str) -> str:
    """The hidden file in which Hadoop keeps the checksum of this one."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def is_temporary(path: str) -> bool:
    """Whether the name is one from `temporary_name`."""
    return _TEMPORARY.fullmatch(path.rpartition("/")[2]) is not None


def is_hidden(path: str) -> bool:
    """Whether the name is internal, not an object: a temporary file or a lock."""
    name = path.rpartition("/")[2]
    return name.startswith(".") and (is_temporary(name) or _LOCK.fullmatch(name) is not None)
