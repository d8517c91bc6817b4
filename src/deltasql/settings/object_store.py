"""Options of object stores: one flat mapping for a whole lake, checked before it is used.

A dotted name says which store an option is for, `s3.region`, `azure.account_key`,
`gcs.service_account`; one mapping may contain all three kinds. A bare name (`region`, `aws_region`)
is obstore's own and goes to the store that is opened. Missing credentials are found by obstore: in
the usual variables (`AWS_…`, `AZURE_…`, `GOOGLE_…`), from workload identity, or at the metadata
service.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from deltasql.errors import ConfigError
from deltasql.settings.keys import parse_duration, shown_key, variable_of

SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "az": "azure",
    "azure": "azure",
    "adl": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "memory": "memory",
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# obstore takes the HTTP client's options separately from the store's own.
_CLIENT = _names(
    "allow_http allow_invalid_certificates connect_timeout http1_only http2_only"
    " pool_idle_timeout pool_max_idle_per_host proxy_ca_certificate proxy_excludes proxy_url"
    " read_timeout root_certificate timeout user_agent"
)
_RETRY = frozenset({"max_retries", "retry_timeout"})
_OWN = {
    "s3": _names(
        "access_key_id secret_access_key session_token region default_region endpoint"
        " checksum_algorithm conditional_put copy_if_not_exists disable_bulk_delete"
        " disable_tagging imdsv1_fallback metadata_endpoint request_payer role_arn"
        " role_session_name s3_express server_side_encryption skip_signature"
        " sse_bucket_key_enabled sse_customer_key_base64 sse_kms_key_id sts_endpoint"
        " unsigned_payload virtual_hosted_style_request web_identity_token_file"
        " container_credentials_relative_uri container_credentials_full_uri"
        " container_authorization_token_file"
    ),
    "azure": _names(
        "account_name account_key client_id client_secret credential_type tenant_id"
        " authority_host sas_key token use_emulator use_fabric_endpoint encryption_key endpoint"
        " msi_endpoint object_id msi_resource_id federated_token_file use_azure_cli"
        " skip_signature disable_tagging"
    ),
    "gcs": _names(
        "service_account service_account_key base_url bearer_token"
        " application_credentials skip_signature"
    ),
}
STORES = tuple(_OWN)
_SHORT = {("s3", "sse"): "server_side_encryption"}
_PREFIXES = {"s3": ("aws_",), "azure": ("azure_storage_", "azure_"), "gcs": ("google_",)}
# What may be shown; anything else may be a secret, including options that obstore adds later.
_HARMLESS = _names(
    "account_name allow_http allow_invalid_certificates authority_host base_url"
    " checksum_algorithm client_id conditional_put connect_timeout copy_if_not_exists"
    " credential_type default_region disable_bulk_delete disable_tagging endpoint http1_only"
    " http2_only imdsv1_fallback max_retries metadata_endpoint msi_endpoint object_id"
    " pool_idle_timeout pool_max_idle_per_host proxy_excludes read_timeout region"
    " request_payer retry_timeout role_arn role_session_name s3_express server_side_encryption"
    " skip_signature sse sse_bucket_key_enabled sts_endpoint tenant_id timeout"
    " unsigned_payload use_azure_cli use_emulator use_fabric_endpoint user_agent"
    " virtual_hosted_style_request"
)

# Texts of many lines.
_DOCUMENTS = _names(
    "application_credentials proxy_ca_certificate root_certificate service_account_key"
)
_ADDRESSES = _names("authority_host base_url endpoint metadata_endpoint msi_endpoint sts_endpoint")
_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f]")
_ADDRESS = re.compile(r"[!-~]*")

# By itself, obstore would retry for three minutes, longer than any caller here wants to wait.
_RETRY_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What obstore is given; none of it shows in a repr."""

    config: dict[str, str] = field(default_factory=dict, repr=False)
    client: dict[str, str] = field(default_factory=dict, repr=False)
    retry: dict[str, Any] = field(default_factory=dict, repr=False)

    def redact(self, text: str) -> str:
        """The text without the values of secret options."""
        for name, value in (self.config | self.client).items():
            if name not in _HARMLESS and value and value in text:
                text = text.replace(value, "…")
        return text


def parse_options(given: Mapping[str, Any], kind: str) -> StoreOptions:
    """The options for a store of that kind; `ConfigError` for a name that no store knows."""
    parsed = StoreOptions(retry={"retry_timeout": timedelta(seconds=_RETRY_TIMEOUT)})
    if kind == "s3":
        # AWS's own way to copy without overwriting.
        parsed.config["copy_if_not_exists"] = "multipart"
    for key, value in given.items():
        owner, name = _own_name(str(key), kind)
        if owner != kind or value is None:
            continue
        if name in _RETRY:
            parsed.retry[name] = _retry_value(str(key), name, value)
        else:
            (parsed.client if name in _CLIENT else parsed.config)[name] = _text(
                str(key), name, value
            )
    return parsed


def options_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The options set by variables: `DELTASQL_S3_REGION` is `s3.region`."""
    variables = {name: variable_of(name) for name in option_names()}
    return {
        name: environment[variable]
        for name, variable in variables.items()
        if variable in environment
    }


def is_option(key: str) -> bool:
    """Whether the key, as `s3.region`, is an option of a store."""
    owner, dot, name = key.partition(".")
    return bool(dot) and owner in _OWN and _known(owner, name) is not None


def option_names() -> list[str]:
    """Every option, in the form `s3.region`."""
    return sorted(
        f"{kind}.{name}"
        for kind, own in _OWN.items()
        for name in own | _CLIENT | _RETRY | {short for whose, short in _SHORT if whose == kind}
    )


def is_secret(key: str) -> bool:
    """Whether the value of an option must not be shown."""
    owner, _, name = key.partition(".")
    return is_option(key) and _known(owner, name) not in _HARMLESS


def _own_name(key: str, kind: str) -> tuple[str, str]:
    """Which store the option is for, and obstore's name for it."""
    owner, dot, name = key.lower().partition(".")
    if not dot:
        owner, name = kind, key.lower()
    known = _known(owner, name)
    if known is None:
        raise _unknown(key, kind if not dot or owner not in _OWN else owner)
    return owner, known


def _known(owner: str, name: str) -> str | None:
    bare = name
    for prefix in _PREFIXES.get(owner, ()):
        if name.startswith(prefix):
            bare = name.removeprefix(prefix)
            break
    bare = _SHORT.get((owner, bare), bare)
    is_known = bare in _OWN.get(owner, ()) or (owner in _OWN and bare in _CLIENT | _RETRY)
    return bare if is_known else None


def _retry_value(key: str, name: str, value: Any) -> Any:
    if name == "retry_timeout":
        return timedelta(seconds=parse_duration(key, value))
    if not str(value).isdecimal():
        raise ConfigError(f"{key} must be a whole number", cause=f"found {value!r:.80}")
    return int(value)


def _text(key: str, name: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # What can't be sent as a header or an address; a key read from a file may end in a line break.
    if name not in _DOCUMENTS and _UNSENDABLE.search(text):
        raise _unsendable(key, "it contains a control character, perhaps a line break at its end")
    if name in _ADDRESSES and not _ADDRESS.fullmatch(text):
        raise _unsendable(key, "it contains a blank, or a letter that is not ASCII")
    return text


def _unsendable(key: str, cause: str) -> ConfigError:
    # Without the value, which may be secret.
    return ConfigError(f"{key} can't be sent to a store", cause=cause, remedy="correct its value")


def _unknown(key: str, kind: str) -> ConfigError:
    known = sorted(f"{kind}.{name}" for name in _OWN.get(kind, frozenset()) | _CLIENT | _RETRY)
    near = difflib.get_close_matches(f"{kind}.{key.lower().rpartition('.')[2]}", known, n=1)
    if kind not in _OWN:
        remedy = f"options begin with {', '.join(f'{owner}.' for owner in _OWN)}"
    else:
        remedy = f"did you mean {near[0]}?" if near else "docs/storage.md lists the options"
    return ConfigError(f"no object store has the option {shown_key(key)}", remedy=remedy)
