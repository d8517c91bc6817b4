-- Differs: only PostgreSQL serves clients that may stop in the middle of what they send.

-- name: staging_allowed
-- Whoever has no right to the rows sends them to the functions.
SELECT has_database_privilege(current_database(), 'TEMPORARY')
       AND has_table_privilege('dl_active_files', 'INSERT');

-- name: staging_create
-- Of this transaction only: whatever becomes of its client, there is nothing to sweep up.
CREATE TEMPORARY TABLE dl_staged_commits (
    commit_id text, removes text, txns text, other text, body_end bytea
) ON COMMIT DROP;

-- name: staging_create_files
CREATE TEMPORARY TABLE dl_staged_files (LIKE dl_active_files) ON COMMIT DROP;

-- name: staging_commit
INSERT INTO dl_staged_commits
VALUES (:commit_id, :removes, :txns, :other, :body_end);

-- name: staging_copy
COPY dl_staged_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
FROM STDIN;

-- name: staging_limit
SELECT set_config('statement_timeout', :milliseconds::text, true);

-- name: staged_rows_write
SELECT dl_write_rows(:table_id::bigint, :version::bigint, NULL::dl_added_file[], removes::json,
                     txns::json, other::json, false)
FROM dl_staged_commits
WHERE commit_id = :commit_id;

-- name: staged_files_move
INSERT INTO dl_active_files
SELECT :table_id, :version, path_key, dv_key, partition_key, size_bytes, modification_time,
       num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
       null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
       extra
FROM dl_staged_files
WHERE table_id = :staged_as
ON CONFLICT DO NOTHING;

-- name: staged_files_twice
SELECT min(path)
FROM dl_staged_files
WHERE table_id = :staged_as
GROUP BY path_key, dv_key
HAVING count(*) > 1
LIMIT 1;

-- name: staged_files_restate
-- As dl_restate_files does: the rows of files that are live already become history.
WITH moved AS (
    DELETE FROM dl_active_files AS a
    USING dl_staged_files AS r
    WHERE r.table_id = :staged_as AND a.table_id = :table_id AND a.path_key = r.path_key
      AND a.dv_key = r.dv_key AND a.version < :version
    RETURNING a.*
)
INSERT INTO dl_dead_files
SELECT table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
       num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
       null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
       extra, :version, NULL, NULL, NULL
FROM moved;

-- name: staged_files_forget
-- Of this transaction: a version of that number may be somebody else's by now.
DELETE FROM dl_active_files
WHERE table_id = :table_id AND version = :version AND xmin = pg_current_xact_id()::xid;

-- name: staged_version_write
SELECT dl_write_next(:table_id::bigint, :version::bigint, :ict::bigint, :commit_id::text,
                     :digest::bytea, 'zstd'::text, :body_start::bytea || s.body_end,
                     :committer::text, :operation::text, :operation_params::text,
                     :transaction_id::text, :is_blind_append::boolean)
FROM dl_staged_commits AS s
WHERE s.commit_id = :commit_id;
