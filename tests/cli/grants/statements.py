"""What is tried as each role, by plain SQL."""

from __future__ import annotations

from urllib.parse import quote

import psycopg
import pyarrow as pa

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})
ROLES = ("reader", "writer", "mirror")
RELATIONS = """
SELECT c.relname, c.relkind = 'r' FROM pg_class AS c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')
ORDER BY 1
"""
MIRROR_TABLES = {
    "dl_mirror_status",
    "dl_mirror_leases",
    "dl_trusted_versions",
    "dl_sessions",
}


FORGED = {
    "a head is rewound": "UPDATE dl_table_heads SET current_version = 0",
    "a head is deleted": "DELETE FROM dl_table_heads",
    "a live file is deleted": "DELETE FROM dl_active_files",
    "a file is forged": "INSERT INTO dl_active_files SELECT * FROM dl_active_files",
    "a version is forged": "INSERT INTO dl_table_versions SELECT * FROM dl_table_versions",
    "a version is changed": "UPDATE dl_table_versions SET body = 'x'",
    "a version is deleted": "DELETE FROM dl_table_versions",
    "a removal is forged": "INSERT INTO dl_dead_files SELECT * FROM dl_dead_files",
    "a table is moved": "UPDATE dl_tables SET location = '/elsewhere'",
    "a table is stolen": "UPDATE dl_tables SET name = 'stolen'",
    "a place is taken": "UPDATE dl_places SET place = 'file:/elsewhere/'",
    "a place is forged": "INSERT INTO dl_places VALUES (999, 'file:/elsewhere/')",
    "metadata is forged": "INSERT INTO dl_metadata_updates SELECT * FROM dl_metadata_updates",
    "a protocol is forged": "INSERT INTO dl_protocol_updates SELECT * FROM dl_protocol_updates",
    "a transaction is forged": "INSERT INTO dl_txn_actions SELECT * FROM dl_txn_actions",
    "a domain is forged": "INSERT INTO dl_domain_metadata SELECT * FROM dl_domain_metadata",
    "changes are forged": "INSERT INTO dl_cdc_files SELECT * FROM dl_cdc_files",
    "sources are deleted": "DELETE FROM dl_table_sources",
    "a digest is changed": "UPDATE dl_mirror_status SET digest = ''",
    "the inner functions are called": "SELECT dl_write_version("
    "1, 0, 0, 'x', ''::bytea, 'raw', ''::bytea, NULL, NULL, NULL, NULL, false)",
    "inner rows are written": "SELECT dl_write_rows(1, 1, NULL, '[]'::json, NULL, NULL, false)",
    "files are restated": "SELECT dl_restate_files(1, 9, ARRAY[]::dl_added_file[])",
}
REFUSED_BY_CHECKS = {
    "an old version is written": "SELECT dl_write_next(1, 1, 1, 'x', sha256('x'::bytea), 'raw', "
    "'x'::bytea, NULL, 'WRITE', '{}', NULL, false)",
    "a version is skipped": "SELECT dl_write_next(1, 9, (extract(epoch FROM now()) * 1000)::bigint,"
    " 'x', sha256('x'::bytea), 'raw', 'x'::bytea, NULL, 'WRITE', '{}', NULL, false)",
    "a version is from the future": "SELECT dl_write_next(1, 2, 99999999999999, 'x', "
    "sha256('x'::bytea), 'raw', 'x'::bytea, NULL, 'WRITE', '{}', NULL, false)",
    "a digest lies": "SELECT dl_write_next(1, 2, (extract(epoch FROM now()) * 1000)::bigint, 'x', "
    "'lie'::bytea, 'raw', 'x'::bytea, NULL, 'WRITE', '{}', NULL, false)",
    "rows of an old version": "SELECT dl_write_next_rows("
    "1, 1, NULL, '[]'::json, NULL, NULL, false)",
    "a second head": "SELECT dl_create_head(1, 0)",
}

# The next commit of the table would fail.
FORGED_STATUS = "INSERT INTO dl_mirror_status (table_id, version, status, digest) VALUES "
FORGED_STATUSES = {
    "of a version to come": f"{FORGED_STATUS} (1, 2, 'PENDING', 'x')",
    "of a table to come": f"{FORGED_STATUS} (2, 0, 'PENDING', 'x')",
}

# PostgreSQL has times that Python has not.
FORGED_TIMES = {
    "of a pin": "INSERT INTO dl_pins VALUES ('p', 1, 0, 'r', NULL, '-infinity', 'infinity')",
    "of a session": "INSERT INTO dl_sessions"
    " VALUES ('s', 'x', 'h', 1, NULL, '-infinity', 'infinity', '4000-01-01 BC')",
    "of a job": "INSERT INTO dl_maintenance_jobs"
    " VALUES ('j', 1, 'VACUUM', 'r', '-infinity', 'me', 'infinity', '-infinity')",
}

# What would stop the mirror of a table until the owner deletes the row.
_LEASE = "INSERT INTO dl_mirror_leases (table_id, work, holder, token, expires_at) VALUES "
FORGED_NOTES = {
    "a lease without a next token": f"{_LEASE} (1, 'CHECKPOINTS', 'x', 9223372036854775807, now())",
    "a lease without end": f"{_LEASE} (2, 'COMMITS', 'x', 1, 'infinity')",
    "a lease of an hour": f"{_LEASE} (2, 'COMMITS', 'x', 1, now() + interval '1 hour')",
    "a lease that knows the mirror": "INSERT INTO dl_mirror_leases VALUES"
    " (2, 'COMMITS', 'x', 1, now(), 5, 1, 1)",
    "the last token": "UPDATE dl_mirror_leases SET token = 9223372036854775807",
    "a token taken back": "UPDATE dl_mirror_leases SET token = token - 1",
    "a longer lease": "UPDATE dl_mirror_leases SET expires_at = now() + interval '2 minutes'",
    "an endless lease": "UPDATE dl_mirror_leases SET expires_at = 'infinity'",
    "a lease before all times": "UPDATE dl_mirror_leases SET expires_at = '-infinity'",
    "a lease moved": "UPDATE dl_mirror_leases SET table_id = 7",
    "a mirror ahead": "UPDATE dl_mirror_leases SET mirrored_version = 99",
    "half of the sums": "UPDATE dl_mirror_leases SET total_files = NULL",
    "sums below nothing": "UPDATE dl_mirror_leases SET total_files = -1",
    "half of the growth": "UPDATE dl_mirror_leases SET due_version = NULL, actions_since = 1",
    "a checkpoint to come": "UPDATE dl_mirror_leases SET due_version = 99, actions_since = 0",
    "a holder of 1 MB": "UPDATE dl_mirror_leases SET holder = repeat('x', 1000000)",
    "an attempt to come": "UPDATE dl_mirror_status SET status = 'FAILED', json_written = false,"
    " last_attempt_at = 'infinity'",
    "an attempt before all times": "UPDATE dl_mirror_status SET last_attempt_at = '-infinity'",
    "a success to come": "UPDATE dl_mirror_status SET mirrored_at = now() + interval '1 day'",
    "all retries": "UPDATE dl_mirror_status SET status = 'FAILED', retry_count = 2147483646",
    "fewer retries than none": "UPDATE dl_mirror_status SET retry_count = -2147483648",
    "a message of 1 MB": "UPDATE dl_mirror_status SET error_message = repeat('x', 1000000)",
}


def as_role(url: str, name: str) -> str:
    """The address for another role."""
    return url.replace("postgres@", f"{quote(name, safe='')}@")


def refusal(connection: psycopg.Connection, statement: str) -> str | None:
    """The state that a statement ends in; None where it is done."""
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate
    return None
