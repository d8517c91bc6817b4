"""Azure's shared access signatures for one folder: to read and list it, and nothing else.

Only accounts with a hierarchical namespace know folders. On a flat one the narrowest signature that
can list is a container's, which is wider than a table: the server refuses this one instead.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

_VERSION: Final = "2022-11-02"
# Clocks differ.
_EARLIER: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Account:
    """Who signs; `key` is base64."""

    name: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Signature:
    """A token that expires by itself."""

    token: str = field(repr=False)
    expires: datetime


def signature(
    account: Account, container: str, folder: str, *, seconds: int, protocol: str = "https"
) -> Signature:
    """A signature for a folder, from a moment ago on."""
    now = datetime.now(UTC).replace(microsecond=0)
    expires = now + timedelta(seconds=seconds)
    token = signed(account, container, folder, span=(now - _EARLIER, expires), protocol=protocol)
    return Signature(token, expires)


def signed(
    account: Account,
    container: str,
    folder: str,
    *,
    span: tuple[datetime, datetime],
    protocol: str,
) -> str:
    """The query of a signature (service SAS, `sr=d`)."""
    start, end = (moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in span)
    resource = f"/blob/{account.name}/{container}/{folder}"
    # In this order: permissions, times, resource, identifier, address, protocol, version, kind of
    # resource, snapshot, encryption scope, and five headers of the answer.
    fields = ["rl", start, end, resource, "", "", protocol, _VERSION, "d", "", "", *[""] * 5]
    mac = hmac.new(base64.b64decode(account.key), "\n".join(fields).encode(), hashlib.sha256)
    return urlencode(
        {
            "st": start,
            "se": end,
            "sp": "rl",
            "spr": protocol,
            "sv": _VERSION,
            "sr": "d",
            "sdd": folder.count("/") + 1,
            "sig": base64.b64encode(mac.digest()).decode(),
        }
    )
