"""What may be secret, kept out of errors: of their texts, and of what they carry along.

Reports of errors (by rich, IPython, pytest, Sentry) show more than the text: errors that were
replaced, with all that a driver hung on them, and the variables of every call.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Final, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

HIDDEN: Final = "***"
# A password may have any sign. An @ ends it, the last one if there are several; where there is
# none, the text was cut off. A number is the port of a host. What is looked for has a length, or a
# long text of a stranger would take the square of its own.
_PASSWORD: Final = re.compile(
    r"(?<=://)(?!\[[0-9a-fA-F:.]{1,60}\](?:[:/,?#\s'\"]|$))([^\s/:@?#]{0,300}):"
    r"(?:\S{0,1000}@|(?!\d{1,5}(?!\w))(?:[^\n]{0,1000}@|\S*))"
)
# One that is misspelt, such as postgresql:/user:password@host, and one without a scheme.
_MISSPELT: Final = re.compile(
    r"(?i)\b(postgres(?:ql)?)(?::/?|//?)(?!//)[^\s/:@]{0,300}:\S{0,1000}@"
)
_BARE: Final = re.compile(r"(?<![\w/.:@-])[\w.+%-]{1,100}:[^\s/:@]{1,300}@(?=[\w.-]{1,300}[:/])")
# Where the part before the @ is a key or a token. In abfss://container@account it is not.
_TOKEN: Final = re.compile(r"(?i)\b((?:https?|s3a?|gs)://)[^\s/@'\"]{1,1000}@")
_QUERY: Final = re.compile(
    r"(?i)(?<=[?&])([\w.%-]{0,40}(?:sig|signature|token|passw|secret|credential)[\w.%-]{0,40})="
    r"[^\s&'\"]+"
)
_NAMED: Final = re.compile(
    r"(?i)\b((?:ssl)?password|secret[\w.]{0,60}|[\w.]{0,60}access_key|session_token|account_key|"
    r"sas_key)(['\"]?\s{0,3}[=:]\s{0,3})(?:'[^']{0,1000}'|\"[^\"]{0,1000}\"|[^\s,;&]+)"
)


def redacted(text: str) -> str:
    """The text without anything that looks like a password, whoever wrote it, and wherever."""
    if "@" in text or "://" in text:
        text = _TOKEN.sub(rf"\1{HIDDEN}@", _PASSWORD.sub(_masked, text))
        text = _MISSPELT.sub(rf"\1://{HIDDEN}@", _BARE.sub(f"{HIDDEN}@", text))
        text = _QUERY.sub(rf"\1={HIDDEN}", text)
    return _NAMED.sub(rf"\1\2{HIDDEN}", text)


def _masked(found: re.Match[str]) -> str:
    return f"{found[1]}:{HIDDEN}" + ("@" if found[0].endswith("@") else "")


class Hidden(str):
    """A text that may be secret: itself everywhere but in a repr, which reports print."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(HIDDEN)


def raise_alone(error: BaseException) -> NoReturn:
    """Raise an error without the one that it replaces: `from None` keeps that, and only hides it.

    Errors of drivers hold the options of their connections, passwords among them.
    """
    try:
        raise error
    except BaseException:
        error.__context__ = None
        raise


def discreet(function: Callable[P, R]) -> Callable[P, R]:
    """A function that is given secrets: if it fails, the variables of its calls are forgotten.

    The lines of the traceback stay.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # What the caller is handling is the caller's.
        before = sys.exception()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            del args, kwargs
            forget_variables(error, besides=before)
            raise

    return call


def forget_variables(error: BaseException, *, besides: BaseException | None = None) -> None:
    """Forget the variables of all calls that have ended, of the errors before this one, too."""
    seen = {id(besides)}
    ahead: list[BaseException | None] = [error]
    while ahead:
        here = ahead.pop()
        if here is None or id(here) in seen:
            continue
        seen.add(id(here))
        traceback.clear_frames(here.__traceback__)
        ahead += [here.__cause__, here.__context__]
