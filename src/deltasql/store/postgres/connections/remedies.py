"""What to do about a PostgreSQL error, by its cause.

A server that refuses a connection gives its reason only in words, which libpq passes on: words in
another language fall back to the general remedy.
"""

from __future__ import annotations

import re
from typing import Final

import psycopg
from psycopg import errors

GENERAL: Final = "see the cause; a lost connection is safe to try again"
_GRANTS: Final = (
    "the owner of the log's tables can grant it: deltasql db grants --writer ROLE | psql, or with "
    "--reader or --mirror, whichever describes what the role does"
)
_IDENTIFIER: Final = r'"([^"]*)"'

# The words of a refused connection, and the remedy; {0} is what the words name.
_REFUSED: Final = tuple(
    (re.compile(words, re.IGNORECASE), remedy)
    for words, remedy in (
        (
            f"database {_IDENTIFIER} does not exist",
            "create it: createdb {0}, or correct the name at the end of the URL",
        ),
        (
            f"role {_IDENTIFIER} does not exist",
            "create it: createuser {0}, or correct the user in the URL",
        ),
        (
            f"password authentication failed for user {_IDENTIFIER}",
            (
                "correct the password of {0}: in PGPASSWORD, ~/.pgpass, or the URL, where "
                "characters such as @ : / ? # are written as %40 %3A %2F %3F %23"
            ),
        ),
        (
            "no password supplied",
            "give one: in PGPASSWORD, ~/.pgpass or the URL",
        ),
        (
            "no pg_hba.conf entry|authentication failed",
            (
                "let this user in from this host: a line in the server's pg_hba.conf, then "
                "SELECT pg_reload_conf(); managed services have a list of allowed addresses, and "
                "may ask for ?sslmode=require"
            ),
        ),
        (
            (
                "too many (clients|connections)|connection slots are reserved|"
                "no more connections allowed"
            ),
            (
                "lower sql.pool_size, run fewer processes, put a pooler such as PgBouncer in "
                "between, or raise max_connections of the server"
            ),
        ),
        (
            f"permission denied for database {_IDENTIFIER}",
            "GRANT CONNECT ON DATABASE {0} TO this role",
        ),
        (
            (
                "could not translate host name|name or service not known|nodename nor servname|"
                "name resolution"
            ),
            "correct the host in the URL: its name can't be resolved here",
        ),
        (
            "connection refused|no such file or directory",
            (
                "is the server running, and at this host and port? pg_isready -h HOST -p PORT "
                "tells; listen_addresses in postgresql.conf says where it listens"
            ),
        ),
        (
            "timeout expired|timed out|no route to host|network is unreachable",
            "nothing answered at this host and port: check both, and the firewall in between",
        ),
        (
            "server does not support SSL|SSL error|certificate",
            (
                "correct sslmode and sslrootcert in the URL: sslmode=disable for a server without "
                "TLS, verify-full with its certificate authority for others"
            ),
        ),
        (
            "the database system is (starting up|shutting down|in recovery)",
            "wait a moment and try again",
        ),
    )
)
_OBJECT: Final = re.compile(r"permission denied for (\w+(?: \w+)??) (\S+)$")


def remedy_for(error: Exception) -> str:
    """What to do about a psycopg error."""
    if isinstance(error, errors.InsufficientPrivilege):
        return _grant(error.diag.message_primary or str(error))
    if isinstance(error, errors.TooManyConnections):
        return _refused("too many connections")
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return _refused(str(error))
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return (
            "this server is a standby, or default_transaction_read_only is on: connect to the "
            "primary, with ?target_session_attrs=read-write where the URL names several hosts"
        )
    if isinstance(error, errors.DiskFull):
        return "make space where the server keeps its data"
    return GENERAL


def _refused(words: str) -> str:
    for pattern, remedy in _REFUSED:
        found = pattern.search(words)
        if found:
            return remedy.format(*found.groups()) if found.groups() else remedy
    return GENERAL


def _grant(message: str) -> str:
    """Which grant is missing."""
    found = _OBJECT.search(message)
    kind, name = found.groups() if found else ("", "")
    if kind == "schema":
        return (
            f"to create the log: GRANT USAGE, CREATE ON SCHEMA {name} TO this role; if the log is "
            f"there already, {_GRANTS}"
        )
    if kind == "database":
        return f"GRANT CREATE, TEMPORARY ON DATABASE {name} TO this role"
    if kind == "sequence":
        return f"do it as the owner of the log's tables, or GRANT USAGE ON SEQUENCE {name}"
    if message.startswith("must be owner"):
        return "do it as the owner of the log's tables"
    return f"this role lacks a right on {name}; {_GRANTS}" if name else _GRANTS
