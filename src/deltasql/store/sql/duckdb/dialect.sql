-- Differs: list parameters and DuckDB's own functions of time.

-- name: heads_get
SELECT table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version
FROM dl_table_heads
WHERE list_contains(CAST(:table_ids AS BIGINT[]), table_id);

-- name: version_insert
INSERT INTO dl_table_versions
    (table_id, version, commit_id, committed_at, in_commit_timestamp, committer, operation,
     operation_params, transaction_id, is_blind_append, digest, body_encoding, body)
VALUES (:table_id, :version, :commit_id, to_timestamp(CAST(:ict AS BIGINT) / 1000.0), :ict,
        :committer, :operation, :operation_params, :transaction_id, :is_blind_append, :digest,
        :encoding, :body);

-- name: settings
SELECT name, value
FROM duckdb_settings()
WHERE name IN ('checkpoint_threshold', 'access_mode', 'memory_limit', 'threads')
ORDER BY name;

-- name: files_by_key
SELECT f.path_key, f.dv_key
FROM dl_active_files AS f
WHERE f.table_id = :table_id AND f.path_key IN (SELECT unnest(CAST(:keys AS BLOB[])))
UNION
SELECT f.path_key, f.dv_key
FROM dl_dead_files AS f
WHERE f.table_id = :table_id AND f.removed_version > :after
  AND f.path_key IN (SELECT unnest(CAST(:keys AS BLOB[])));

-- name: changes_by_path
SELECT path
FROM dl_cdc_files
WHERE table_id = :table_id AND version > :after
  AND path IN (SELECT unnest(CAST(:paths AS VARCHAR[])));

-- name: transaction_id
SELECT txid_current();
