"""Failures of object stores as our errors: what happened, what to do, and whether to try again.

`is_transient` is True if the same call may work later: timeouts, lost connections, servers that are
down or busy. Whether a write that failed this way happened is unknown.
"""

from __future__ import annotations

import errno
import re

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from deltasql.errors import StoreError

_TRANSIENT = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_TRANSIENT_TEXT = re.compile(
    r"HTTP error|status code: (5\d\d|408|429)|timed? ?out|connection|error sending request",
    re.IGNORECASE,
)
_REFUSED_TEXT = re.compile(r"status code: 40[13]")
# The last place where a client looks for credentials: it asks there when it has found none.
_NO_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|metadata\.google\.internal|MissingCredentials|no credentials",
    re.IGNORECASE,
)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)
_QUERY = re.compile(r"\?[^\s\"')]+")
# An endpoint may have a password.
_USER_INFO = re.compile(r"(?<=://)[^\s\"'?#]*@")
_CODE = re.compile(r"<Code>(.*?)</Code>", re.DOTALL)
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_PERMISSIONS = "docs/permissions.md lists what the store must allow"


class ObjectNotFoundError(StoreError, FileNotFoundError):
    """The store has no object of that name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.errno = errno.ENOENT


def missing(path: str, location: str) -> ObjectNotFoundError:
    """The error for an object that does not exist."""
    return ObjectNotFoundError(
        f"the object {path!r} does not exist",
        cause=f"nothing of that name is in {location}",
        remedy="restore it from a copy, or check that the location and the table belong together",
        path=path,
        is_transient=False,
    )


def local_failure(verb: str, path: str, error: OSError) -> StoreError:
    """The error for a system call that failed."""
    if isinstance(error, PermissionError):
        remedy = f"give the process the rights to {verb} it; {_PERMISSIONS}"
    elif error.errno in _FULL:
        remedy = "make space, or make the file system writable"
    elif error.errno == errno.ETIMEDOUT and error.filename:
        remedy = f"end the process that hangs on to it (fuser {error.filename} shows it)"
    else:
        remedy = "check the directory and the file system it is on"
    return StoreError(
        f"can't {verb} the object {path!r:.300}",
        cause=error.strerror or str(error),
        remedy=remedy,
        path=path,
        is_transient=error.errno in _TRANSIENT,
    )


def remote_failure(verb: str, path: str, location: str, error: Exception) -> StoreError:
    """The error for a request that failed; a missing object is left to `missing`."""
    cause = clean(error)
    is_transient = False
    refused = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    if _NO_CREDENTIALS.search(cause):
        is_transient = not refused and _TRANSIENT_TEXT.search(cause) is not None
        remedy = (
            "give the store's credentials, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; no "
            "option or variable has any, and this machine's metadata service gave none; "
            "docs/storage.md lists the options"
        )
    elif refused or _REFUSED_TEXT.search(cause):  # for a listing, only the text tells
        remedy = f"check the credentials and their rights; {_PERMISSIONS}"
    elif is_bucket_missing(error):
        remedy = "create the bucket or container first, or correct the location"
    elif isinstance(error, TimeoutError) or _TRANSIENT_TEXT.search(cause):
        is_transient = True
        remedy = "try again; if the error persists, check that the store is up and reachable"
    else:
        remedy = "check the location, the options and that the store can be reached"
    return StoreError(
        f"can't {verb} the object {path!r} in {location}",
        cause=cause,
        remedy=remedy,
        path=path,
        is_transient=is_transient,
    )


def is_bucket_missing(error: Exception) -> bool:
    """Whether the whole store is missing, and not just the object."""
    return _NO_BUCKET.search(str(error)) is not None


def told_panic(error: BaseException) -> BaseException:
    """A panic of obstore's, which no `except Exception` catches, as a `ValueError`; any other error
    as it is.

    It panics where a header or an address can't be made of what it was given, such as a key with a
    line break from a variable of AWS's.
    """
    # Its class can't be imported.
    if type(error).__name__ == "PanicException":
        return ValueError(f"the store's client failed: {error}")
    return error


def clean(error: Exception) -> str:
    """The message without the query of a signed URL, the signed text or obstore's debug dump."""
    text = str(error).partition("\n\nDebug source")[0]
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code or message:
        text = text.partition("<")[0] + " ".join(
            found[1].partition("\n")[0] for found in (code, message) if found
        )
    return _QUERY.sub("?…", _USER_INFO.sub("…@", text)).strip()
