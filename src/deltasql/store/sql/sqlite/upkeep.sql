-- Differs: arrays as JSON, and keys as one blob: JSON has no bytes.

-- name: vacuum_journal
INSERT INTO dl_vacuum_files
    (vacuum_id, batch, table_id, path_key, kind, at_version, size_bytes, journaled_at, path)
SELECT :vacuum_id, :batch, :table_id, substr(:keys, 1 + 16 * path.key, 16), kind.value,
       :at_version, CAST(size.value AS INTEGER), @now, path.value
FROM json_each(:paths) AS path
JOIN json_each(:kinds) AS kind ON kind.key = path.key
JOIN json_each(:sizes) AS size ON size.key = path.key
WHERE true
ON CONFLICT (vacuum_id, path_key) DO NOTHING
RETURNING path;
