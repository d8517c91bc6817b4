"""Credentials for readers: for one table's folder, for reading, and never more than that."""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from deltasql.errors import StoreError
from deltasql.objectstore import open_store
from deltasql.secrecy import discreet
from deltasql.serve.problems import Refused
from deltasql.serve.unity.sas import Account, Signature, signature
from deltasql.serve.unity.sts import Caller, Credentials, assume_role
from deltasql.settings.object_store import SCHEMES, parse_options

AUTO: Final = "auto"
OFF: Final = "off"
_LIFETIME: Final = 3600
# How long credentials must still be valid to be handed out again.
_LEFT: Final = timedelta(minutes=30)
_KEPT: Final = 1_000
# In a policy these characters are special, so a folder must not contain them.
_SPECIAL: Final = re.compile(r"[*?$%\\\x00-\x1f\x7f]")
_KEYS: Final = frozenset({"access_key_id", "secret_access_key", "session_token"})
_REFUSAL: Final = re.compile(r"\b40[13]\b|Access ?Denied|Forbidden|privileges", re.IGNORECASE)


# What says where, and not who; anything else is left out when the signature is tried.
_AZURE_HARMLESS: Final = frozenset(
    {"account_name", "endpoint", "allow_http", "use_emulator", "timeout", "connect_timeout"}
)
Lent = TypeVar("Lent", Credentials, Signature)


class Vending:
    """Hands out credentials for tables of one lake; remembers those that are still valid."""

    def __init__(self, options: Mapping[str, Any], how: str) -> None:
        self._options = dict(options)
        self._how = how
        self._lock = threading.Lock()
        self._known: dict[str, Credentials | Signature] = {}
        self._proven: set[tuple[str, str]] = set()

    @discreet
    def __call__(self, location: str) -> dict[str, Any]:
        """The members of Unity's answer for the table at that location, or `Refused`."""
        scheme, dot, _ = location.partition("://")
        if not dot:
            return {"expiration_time": 0}
        if self._how == OFF:
            raise _none("catalog.credentials is off")
        kind = SCHEMES.get(scheme.lower())
        if kind == "azure":
            found_for_azure = self._azure(location)
            return {
                "azure_user_delegation_sas": {"sas_token": found_for_azure.token},
                "expiration_time": int(found_for_azure.expires.timestamp() * 1000),
            }
        if kind != "s3":
            raise _none("this kind of store has none that are limited to a folder")
        found = self._credentials(location)
        return {
            "aws_temp_credentials": {
                "access_key_id": found.access_key_id,
                "secret_access_key": found.secret_access_key,
                "session_token": found.session_token,
            },
            "expiration_time": int(found.expires.timestamp() * 1000),
        }

    def _azure(self, location: str) -> Signature:
        known = self._still_good(location)
        if isinstance(known, Signature):
            return known
        options = parse_options(self._options, "azure")
        name = options.config.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
        key = options.config.get("account_key") or os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
        container, folder, host = _azure_place(location)
        if host is not None and host.partition(".")[0] != name:
            raise _none("the table is in another storage account than the service's")
        if not name or not key:
            raise _none("the service has no account key of its own to sign with")
        is_plain = options.client.get("allow_http") == "true"
        protocol = "https,http" if is_plain else "https"
        found = signature(
            Account(name, key), container, folder, seconds=_LIFETIME, protocol=protocol
        )
        self._must_be_narrow_on_azure(location, folder, found)
        return self._keep(location, found)

    def _must_be_narrow_on_azure(self, location: str, folder: str, found: Signature) -> None:
        if (location, folder) in self._proven:
            return
        kept = {key: value for key, value in self._options.items() if not _is_azure_key(key)}
        objects = open_store(
            location.removesuffix("/").removesuffix(folder).rstrip("/"),
            {**kept, "azure.sas_key": found.token},
        )
        nothing = f"deltasql-probe-{uuid.uuid4().hex}"
        if _is_refused(lambda: objects.head(f"{folder}/{nothing}")):
            raise _none(
                "the account has no folders: without a hierarchical namespace a signature covers "
                "the whole container"
            )
        tag = json.dumps({"e_tag": f'"{nothing}"'})
        if not (
            _is_refused(lambda: objects.head(nothing))
            and _is_refused(lambda: objects.head(f"{folder}{nothing}"))
            and _is_refused(lambda: objects.put_if_match(f"{folder}/{nothing}", b"", tag))
        ):
            raise _none("the store ignores the signature's limits: it could do more")
        self._proven.add((location, folder))

    def _still_good(self, location: str) -> Credentials | Signature | None:
        with self._lock:
            known = self._known.get(location)
        is_good = known is not None and known.expires - datetime.now(UTC) > _LEFT
        return known if is_good else None

    def _keep(self, location: str, found: Lent) -> Lent:
        with self._lock:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[location] = found
        return found

    def _credentials(self, location: str) -> Credentials:
        known = self._still_good(location)
        if isinstance(known, Credentials):
            return known
        bucket, folder = _place(location)
        role = None if self._how == AUTO else self._how
        found = assume_role(
            self._caller(), role=role, policy=policy(bucket, folder), seconds=_LIFETIME
        )
        self._must_be_narrow(bucket, folder, found)
        return self._keep(location, found)

    def _caller(self) -> Caller:
        options = parse_options(self._options, "s3")
        config, client = options.config, options.client

        def option(name: str, variable: str) -> str | None:
            return config.get(name) or os.environ.get(variable)

        key = option("access_key_id", "AWS_ACCESS_KEY_ID")
        secret = option("secret_access_key", "AWS_SECRET_ACCESS_KEY")
        if not key or not secret:
            raise _none("the service has no access key of its own to ask STS with")
        region = option("region", "AWS_REGION") or config.get("default_region") or "us-east-1"
        endpoint = option("sts_endpoint", "AWS_ENDPOINT_URL_STS") or option(
            "endpoint", "AWS_ENDPOINT_URL"
        )
        if endpoint is None:
            if self._how == AUTO:
                raise _none("on AWS a role is needed")
            endpoint = f"https://sts.{region}.amazonaws.com/"
        if not endpoint.lower().startswith("https://") and client.get("allow_http") != "true":
            raise _none("STS is asked over https only, unless s3.allow_http is set")
        token = option("session_token", "AWS_SESSION_TOKEN")
        return Caller(f"{endpoint.rstrip('/')}/", region, key, secret, token)

    def _must_be_narrow(self, bucket: str, folder: str, found: Credentials) -> None:
        """Prove once per folder that the store enforces the policy: some servers ignore it."""
        if (bucket, folder) in self._proven:
            return
        options = {
            **{key: value for key, value in self._options.items() if not _is_key(key)},
            "s3.access_key_id": found.access_key_id,
            "s3.secret_access_key": found.secret_access_key,
            "s3.session_token": found.session_token,
        }
        objects = open_store(f"s3://{bucket}", options)
        nothing = f"deltasql-probe-{uuid.uuid4().hex}"
        beside = f"{folder}{nothing}"
        tag = json.dumps({"e_tag": f'"{nothing}"'})
        is_narrow = (
            _is_refused(lambda: objects.head(nothing))
            and _is_refused(lambda: objects.head(beside))
            # No tag matches an object that does not exist: nothing is written even if it were
            # allowed.
            and _is_refused(lambda: objects.put_if_match(f"{folder}/{nothing}", b"", tag))
        )
        if not is_narrow:
            raise _none("the store's STS ignores the policy: its credentials could do more")
        self._proven.add((bucket, folder))


def policy(bucket: str, folder: str) -> str:
    """What a reader of a folder may do."""
    root = f"arn:aws:s3:::{bucket}"
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": ["s3:GetObject"],
                    "Resource": [f"{root}/{folder}/*"],
                },
                {
                    "Effect": "Allow",
                    "Action": ["s3:ListBucket"],
                    "Resource": [root],
                    "Condition": {"StringLike": {"s3:prefix": [f"{folder}/*"]}},
                },
            ],
        }
    )


def _is_key(option: str) -> bool:
    return option.rpartition(".")[2].removeprefix("aws_") in _KEYS


def _is_azure_key(option: str) -> bool:
    """Whether an option says who the service itself is, on Azure."""
    name = option.rpartition(".")[2].removeprefix("azure_storage_").removeprefix("azure_")
    return name not in _AZURE_HARMLESS


def _azure_place(location: str) -> tuple[str, str, str | None]:
    """Container, folder, and the account's host, if the location says it."""
    place, folder = _place(location)
    netloc = urlsplit(location).netloc
    container, at, host = netloc.partition("@")
    return (container, folder, host) if at else (place, folder, None)


def _place(location: str) -> tuple[str, str]:
    parts = urlsplit(location)
    bucket, folder = parts.netloc.rpartition("@")[2], parts.path.strip("/")
    if not folder or parts.query or parts.fragment:
        raise _none("the table is a whole bucket, or its location has a query")
    if _SPECIAL.search(folder) or ".." in folder.split("/"):
        raise _none("the table's folder has characters with a special meaning in a policy")
    return bucket, folder


def _is_refused(call: Any) -> bool:
    try:
        call()
    except StoreError as error:
        if _REFUSAL.search(error.cause):
            return True
        raise
    return False


def _none(cause: str) -> Refused:
    return Refused(
        501,
        "no credentials are vended for this table",
        cause=cause,
        remedy="give the reader storage options of its own, for reading only; see docs/service.md",
    )
