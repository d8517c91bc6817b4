-- Differs: only a server that replays another one has a position to tell; the embedded databases have no
-- replicas.

-- name: replica_begin
-- One snapshot for the head and the answer, so that the head says how new the answer is.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: replica_head
-- A standby that was promoted, or that follows a server that is no longer the primary, goes its own way: its
-- versions have the same numbers, and other times. `proven` is the newest version that is as the client knows it.
SELECT pg_is_in_recovery(), h.current_version, h.last_ict, k.proven, coalesce(k.is_astray, false)
FROM (SELECT max(v.version) FILTER (WHERE v.in_commit_timestamp = n.ict),
             bool_or(v.in_commit_timestamp <> n.ict)
      FROM unnest(:versions::bigint[], :icts::bigint[]) AS n(version, ict)
      JOIN dl_table_versions AS v ON v.table_id = :table_id AND v.version = n.version) AS k(proven, is_astray)
LEFT JOIN dl_table_heads AS h ON h.table_id = :table_id;

-- name: replica_known
SELECT in_commit_timestamp
FROM dl_table_versions
WHERE table_id = :table_id AND version = :version;

-- name: replica_files
-- A server that lacks the version gives a row without a path, like one where it has expired; so does one
-- that goes its own way.
{files}
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
WHERE NOT EXISTS (
    SELECT FROM (VALUES {known}) AS n(version, ict)
    JOIN dl_table_versions AS v
      ON v.table_id = {table_id} AND v.version = n.version AND v.in_commit_timestamp = n.ict
    WHERE n.version >= {version} AND pg_is_in_recovery());

-- name: replica_status
SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text;

-- name: replica_behind
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), :replayed::pg_lsn)::bigint;

-- name: replica_identity
SELECT system_identifier, (SELECT oid::bigint FROM pg_database WHERE datname = current_database())
FROM pg_control_system();
