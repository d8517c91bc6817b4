"""The paths of data files: URIs in the log, object keys in the store, Hive directories between.

`add.path` is a URI (RFC 2396), relative to the table's root or absolute with a scheme; the object's
key is its percent-decoded form. A partition directory is Hive-escaped first, so the value `a:b` is
in the directory `p=a%3Ab`, which the log writes as `p=a%253Ab`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from deltasql.errors import LogFormatError, ValidationError

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

# What java.net.URI, and so Spark, leaves unescaped in a path: the ASCII that RFC 2396 allows there,
# and all other letters. Spaces and control characters beyond ASCII are escaped as well.
_TO_ENCODE = re.compile(
    r"[\x00-\x20\"#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_ESCAPED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_TO_HIVE_ESCAPE = re.compile(r"[\x01-\x1f\"#%'*/:=?\\\x7f{\[\]^]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
LOG_FOLDER = "_delta_log"
_IN_THE_LOG = f"it lies in a folder {LOG_FOLDER}, which holds logs and no data"
# At least two letters: `c:` is a drive, or the start of a careless name, but no scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def is_absolute(path: str) -> bool:
    """Whether a path of the log names its object by a scheme, whatever the table's root."""
    return _SCHEME.match(path) is not None


def is_elsewhere(path: str) -> bool:
    """Whether a path of the log is not relative to the table's root: it has a scheme, or it begins
    with a slash, which is the root of the table's file system or bucket.
    """
    return path.startswith("/") or is_absolute(path)


def encode_path(key: str) -> str:
    """The URI of an object key in the log."""
    encoded = _TO_ENCODE.sub(_percent, key)
    first, slash, rest = encoded.partition("/")
    # Otherwise `ab:c` would be read as a scheme.
    return first.replace(":", "%3A") + slash + rest if is_absolute(encoded) else encoded


def location_uri(location: str) -> str:
    """The location of a store, a URI, as the log writes it before the paths of its files.

    In the key of a bucket escapes are optional: `a b` and `a%20b` are one place.
    """
    scheme, _, rest = location.rstrip("/").partition("://")
    host, slash, key = rest.partition("/")
    if scheme.lower() == "file" or not slash:
        return location.rstrip("/")
    return f"{scheme}://{host}/{encode_path(decode_path(key))}"


def decode_path(path: str) -> str:
    """The object key, or the plain absolute URI, of a path in the log."""
    if "%" not in path:
        return path
    try:
        return _ESCAPED.sub(_unpercent, path)
    except UnicodeDecodeError:
        raise LogFormatError(
            f"the path {path!r:.200} can't be decoded",
            cause="its percent-escapes are not UTF-8",
            remedy="correct the path in the log",
        ) from None


def check_path(path: str) -> None:
    """Raise `ValidationError` unless `path` may be in an action that we write."""
    problem = _fault(path)
    if problem:
        raise _not_allowed(path, problem)


def check_new_path(path: str) -> None:
    """Raise `ValidationError` unless a file with that path may join a table.

    What other writers have put into a log may be odder, and can still be read and removed.
    """
    if is_plain(path):
        problem = _IN_THE_LOG if LOG_FOLDER in path.split("/") else ""
    else:
        problem = _fault_of_odd(path) or _fault_of_new(path)
    if problem:
        raise _not_allowed(path, problem)


def _not_allowed(path: str, problem: str) -> ValidationError:
    return ValidationError(
        f"the path {path!r:.200} can't be used in a table",
        cause=problem,
        remedy="give the path relative to the table's root, or a whole URI with its scheme, "
        "percent-encoded",
        path=path,
    )


def must_not_climb(path: str, *, source: str) -> None:
    """Raise `LogFormatError` if a path that somebody else wrote could leave the table's root."""
    problem = "" if is_plain(path) else _climbs(decode_path(path))
    if problem:
        raise LogFormatError(
            f"{source}: the path {path!r:.200} can't be used in a table",
            cause=problem,
            remedy="correct the path in the log",
        )


def object_key(path: str) -> str:
    """The key below the table's root that a relative path of the log names."""
    problem = _fault(path)
    if problem:
        raise LogFormatError(
            f"the log holds the path {path!r:.200}, which can't be used in a table",
            cause=problem,
            remedy="correct the path in the log",
        )
    return decode_path(path)


def hive_directory(values: Iterable[tuple[str, str | None]]) -> str:
    """The directory, `a=1/b=x`, of a partition; '' without partition columns."""
    return "/".join(
        f"{hive_escape(name)}={HIVE_NULL if value is None else hive_escape(value)}"
        for name, value in values
    )


def hive_escape(text: str) -> str:
    """A partition's name or value as Hive and Spark write it in a directory name."""
    return _TO_HIVE_ESCAPE.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _fault(path: str) -> str:
    """What is wrong with a path; '' if nothing is."""
    return "" if is_plain(path) else _fault_of_odd(path)


def is_plain(path: str) -> bool:
    """Whether nothing can be wrong with a path: nothing to decode, no scheme, no leading dots.

    Most paths are plain, and there are many.
    """
    return (
        path != ""
        and "%" not in path
        and ":" not in path
        and "/." not in path
        and "//" not in path
        and path.isprintable()
        and path[0] not in "./"
        and path[-1] != "/"
    )


def _fault_of_odd(path: str) -> str:
    if not path:
        return "it is empty"
    if "\0" in path:
        return "it holds a NUL character"
    try:
        decoded = decode_path(path)
    except LogFormatError as error:
        return error.cause
    if "\0" in decoded:
        return "it holds a NUL character"
    if is_absolute(path):
        return _climbs(decoded)
    if decoded.startswith("/"):
        return "it starts with / and has no scheme"
    if decoded.endswith("/"):
        return "it names a directory"
    return _climbs(decoded)


def _fault_of_new(path: str) -> str:
    """What two readers could interpret differently, in a path that has no other fault."""
    if _CONTROL.search(path):
        return "it holds a control character that is not percent-encoded"
    # Object stores distinguish `a//b` from `a/b`, a disk does not.
    below = decode_path(path)
    if is_absolute(path):
        below = below.partition(":")[2].removeprefix("//")
    if "//" in below:
        return "it has an empty segment: two slashes in a row"
    return _IN_THE_LOG if LOG_FOLDER in below.split("/") else ""


def _climbs(decoded: str) -> str:
    # Object keys have no `.` either: a store distinguishes `a/./b` from `a/b`, a disk does not.
    segments = decoded.split("/")
    return "it has a segment of dots" if ".." in segments or "." in segments else ""


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def _unpercent(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode()
