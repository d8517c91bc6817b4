-- Differs: no information_schema, arrays as JSON, times as text, files by the index that follows their order on disk, sums of 64 bits.

-- name: migrations_exist
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'dl_schema_migrations';

-- name: heads_get
SELECT table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version
FROM dl_table_heads
WHERE table_id IN (SELECT value FROM json_each(:table_ids));

-- name: version_insert
INSERT INTO dl_table_versions
    (table_id, version, commit_id, committed_at, in_commit_timestamp, committer, operation,
     operation_params, transaction_id, is_blind_append, digest, body_encoding, body)
VALUES (:table_id, :version, :commit_id,
        strftime('%Y-%m-%d %H:%M:%f', :ict / 1000.0, 'unixepoch'), :ict, :committer, :operation,
        :operation_params, :transaction_id, :is_blind_append, :digest, :encoding, :body);

-- part: live_index
-- Without statistics SQLite may choose the key's index, which jumps across the table.
INDEXED BY dl_active_files_partition

-- part: dead_index
INDEXED BY dl_dead_files_removed

-- part: summed_bytes
-- A sum that is too large is an error here, and logs of others claim what they like.
coalesce(sum(min(size_bytes, 9007199254740992)), 0)

-- name: files_by_key
-- The keys come as one blob: JSON has no bytes.
WITH RECURSIVE given (place, path_key) AS (
    SELECT 1, substr(:keys, 1, 16)
    UNION ALL
    SELECT place + 16, substr(:keys, place + 16, 16) FROM given WHERE place + 16 < length(:keys)
)
SELECT f.path_key, f.dv_key
FROM dl_active_files AS f
WHERE f.table_id = :table_id AND f.path_key IN (SELECT path_key FROM given)
UNION
SELECT f.path_key, f.dv_key
FROM dl_dead_files AS f
WHERE f.table_id = :table_id AND f.removed_version > :after
  AND f.path_key IN (SELECT path_key FROM given);

-- name: changes_by_path
SELECT path
FROM dl_cdc_files
WHERE table_id = :table_id AND version > :after
  AND path IN (SELECT value FROM json_each(:paths));
