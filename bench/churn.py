"""A table whose files came and went for many versions, generated in SQL: rows, bodies, digests.

Commits go in pairs: one adds files and the next removes them. Unlike those of `history`, the
versions are whole: vacuum and retention check them against their commits as they would any others.
"""

from __future__ import annotations

from typing import Any

import psycopg

from bench import history

# As many dead files as versions.
_FILES = 2

_TABLE = """
SELECT table_id, current_version, last_ict FROM dl_tables JOIN dl_table_heads USING (table_id)
WHERE name = %s
"""
# What is there becomes older than all that is generated: times grow with the versions.
_OLDER = """
UPDATE dl_table_versions
SET in_commit_timestamp = in_commit_timestamp - %(versions)s::bigint,
    committed_at = committed_at - make_interval(secs => %(versions)s / 1000.0)
WHERE table_id = %(table_id)s
"""
_VERSIONS = """
INSERT INTO dl_table_versions (
    table_id, version, commit_id, committed_at, in_commit_timestamp, committer, operation,
    operation_params, transaction_id, is_blind_append, digest, body_encoding, body)
SELECT %(table_id)s, v, 'churn-' || v, to_timestamp(ict / 1000.0), ict, 'bench', 'WRITE', '{}',
       NULL, adds, sha256(body), 'raw', body
FROM (
    SELECT v, ict, adds, convert_to(
        '{"commitInfo":{"inCommitTimestamp":' || ict || ',"operation":"WRITE"}}' || E'\n' ||
        (SELECT string_agg(
             replace(CASE WHEN adds THEN %(add)s::text ELSE %(remove)s::text END, '@path@',
                     'c' || (v - CASE WHEN adds THEN 0 ELSE 1 END) || '-' || n) || E'\n', '')
         FROM generate_series(1, %(files)s::integer) AS n),
        'UTF8') AS body
    FROM (
        SELECT v, %(last_ict)s::bigint - %(versions)s::bigint + v - %(first)s + 1 AS ict,
               (v - %(first)s) %% 2 = 0 AS adds
        FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS v
    ) AS numbered
) AS made
"""
_STATUSES = """
INSERT INTO dl_mirror_status (table_id, version, status, json_written, checkpoint_written, digest)
SELECT table_id, version, 'SUCCESS', true, version = %(last)s, digest FROM dl_table_versions
WHERE table_id = %(table_id)s
ON CONFLICT (table_id, version) DO UPDATE SET status = 'SUCCESS', json_written = true
"""
_HEAD = "UPDATE dl_table_heads SET current_version = %(last)s WHERE table_id = %(table_id)s"
_DEAD = """
INSERT INTO dl_dead_files ({columns}, path, path_key, version, removed_version,
                           deletion_timestamp, remove_data_change, remove_action)
SELECT {taken}, d.path, substring(sha256(d.path::bytea) FOR 16), d.version, d.version + 1, 1, true,
       replace(%(removed)s::text, '@path@', d.path)
FROM (
    SELECT v AS version, 'c' || v || '-' || n AS path
    FROM generate_series(%(first)s::bigint, %(last)s::bigint, 2) AS v,
         generate_series(1, %(files)s::integer) AS n
) AS d, (SELECT * FROM dl_active_files WHERE table_id = %(table_id)s LIMIT 1) AS t
"""


def generate(url: str, name: str, add: str, *, versions: int) -> None:
    """Give a table so many versions, an even number; its live files stay.

    `add` is the action of one of them, with `@path@` in the place of its path.
    """
    removed = '{"path":"@path@","deletionTimestamp":1,"dataChange":true}'
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(_TABLE, [name]).fetchone()
        assert found is not None
        values: dict[str, Any] = {
            "table_id": found[0],
            "first": found[1] + 1,
            "last": found[1] + versions,
            "last_ict": found[2],
            "versions": versions,
            "files": _FILES,
            "add": add,
            "remove": '{"remove":' + removed + "}",
            "removed": removed,
        }
        for statement in (_OLDER, _VERSIONS, _STATUSES, _HEAD):
            connection.execute(statement, values)
        history.insert_dead(connection, _DEAD, values)
