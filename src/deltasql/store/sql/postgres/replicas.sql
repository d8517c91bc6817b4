-- Differs: only a server that replays another one has a position to tell; the embedded databases have no
-- replicas.

-- name: replica_begin
-- One snapshot for the head and the answer, so that the head says how new the answer is.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: replica_head
-- A standby that was promoted goes its own way: its versions have the same numbers, and other rows.
SELECT pg_is_in_recovery(), (SELECT current_version FROM dl_table_heads WHERE table_id = :table_id);

-- name: replica_files
-- A server that lacks the version gives a row without a path, like one where it has expired; so does one
-- that was promoted.
{files}
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
WHERE NOT EXISTS (
    SELECT FROM dl_table_heads
    WHERE table_id = {table_id} AND current_version >= {version} AND pg_is_in_recovery());

-- name: replica_status
SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text;

-- name: replica_behind
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), :replayed::pg_lsn)::bigint;

-- name: replica_identity
SELECT system_identifier, (SELECT oid::bigint FROM pg_database WHERE datname = current_database())
FROM pg_control_system();
