"""One call of AWS's Security Token Service: AssumeRole with a policy.

Other S3 servers (SeaweedFS, MinIO) answer it at their own address, and need no role.
"""

from __future__ import annotations

import hashlib
import hmac
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Final
from xml.etree import ElementTree as ET

from deltasql.errors import StoreError
from deltasql.secrecy import discreet, raise_alone

_TIMEOUT: Final = 10.0
_LARGEST: Final = 1024 * 1024
_SHA256: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and where."""

    endpoint: str
    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys that expire by themselves."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires: datetime


@discreet
def assume_role(caller: Caller, *, role: str | None, policy: str, seconds: int) -> Credentials:
    """Credentials that may do at most what the policy says; `StoreError` if there are none."""
    asked = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleSessionName": "deltasql-reader",
        "DurationSeconds": str(seconds),
        "Policy": policy,
    }
    body = urllib.parse.urlencode(asked | ({"RoleArn": role} if role else {})).encode()
    try:
        headers = signed(caller, body, datetime.now(UTC))
        request = urllib.request.Request(  # noqa: S310 - the endpoint is the administrator's
            caller.endpoint, data=body, headers=headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
            return _parsed(answer.read(_LARGEST))
    except urllib.error.HTTPError as error:
        raise_alone(_failed(_message(error.read(_LARGEST)) or f"status {error.code}"))
    except (OSError, ValueError, HTTPException, ET.ParseError) as error:
        raise_alone(_failed(str(error)))


def signed(caller: Caller, body: bytes, now: datetime) -> dict[str, str]:
    """The headers of a POST, with its signature (AWS Signature Version 4)."""
    place = urllib.parse.urlsplit(caller.endpoint)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        "host": place.netloc,
        "x-amz-date": stamp,
    }
    if caller.session_token:
        headers["x-amz-security-token"] = caller.session_token
    names = ";".join(headers)
    lines = [f"{name}:{value}" for name, value in headers.items()]
    digest = hashlib.sha256(body).hexdigest()
    asked = "\n".join(["POST", place.path or "/", "", *lines, "", names, digest])
    steps = (stamp[:8], caller.region, "sts", "aws4_request")
    scope = "/".join(steps)
    text = "\n".join([_SHA256, stamp, scope, hashlib.sha256(asked.encode()).hexdigest()])
    key = f"AWS4{caller.secret_access_key}".encode()
    for step in steps:
        key = _mac(key, step)
    signature = _mac(key, text).hex()
    proof = f"Credential={caller.access_key_id}/{scope}, SignedHeaders={names}"
    return headers | {"authorization": f"{_SHA256} {proof}, Signature={signature}"}


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _parsed(content: bytes) -> Credentials:
    found = _texts(content)
    try:
        return Credentials(
            found["AccessKeyId"],
            found["SecretAccessKey"],
            found["SessionToken"],
            datetime.fromisoformat(found["Expiration"]),
        )
    except KeyError as error:
        raise ValueError(f"the answer has no {error}") from None


def _texts(content: bytes) -> Mapping[str, str]:
    """Texts of the answer by element name, without namespaces."""
    root = ET.fromstring(content)  # noqa: S314 - the store's own, and small
    return {item.tag.rpartition("}")[2]: item.text or "" for item in root.iter()}


def _message(content: bytes) -> str:
    try:
        found = _texts(content)
    except ET.ParseError:
        return ""
    return f"{found.get('Code', '')}: {found.get('Message', '')}"[:300]


def _failed(cause: str) -> StoreError:
    return StoreError(
        "the object store issued no credentials to pass on",
        cause=cause,
        remedy="let the service's own keys assume the role; see docs/service.md",
    )
