-- Differs: arrays as parameters, one row of each.

-- name: vacuum_journal
INSERT INTO dl_vacuum_files
    (vacuum_id, batch, table_id, path_key, kind, at_version, size_bytes, journaled_at, path)
SELECT :vacuum_id, :batch, :table_id, given.path_key, given.kind, :at_version,
       CAST(given.size AS BIGINT), @now, given.path
FROM (
    SELECT unnest(CAST(:keys AS BLOB[])) AS path_key, unnest(CAST(:paths AS VARCHAR[])) AS path,
           unnest(CAST(:kinds AS VARCHAR[])) AS kind, unnest(CAST(:sizes AS VARCHAR[])) AS size
) AS given
ON CONFLICT (vacuum_id, path_key) DO NOTHING
RETURNING path;
