-- Differs: arrays as parameters, and rows that are locked.

-- name: vacuum_journal
INSERT INTO dl_vacuum_files
    (vacuum_id, batch, table_id, path_key, kind, at_version, size_bytes, journaled_at, path)
SELECT :vacuum_id, :batch, :table_id, given.path_key, given.kind, :at_version,
       CAST(given.size AS bigint), @now, given.path
FROM unnest(:keys::bytea[], :paths::text[], :kinds::text[], :sizes::text[])
     AS given (path_key, path, kind, size)
ON CONFLICT (vacuum_id, path_key) DO NOTHING
RETURNING path;

-- name: analyze
-- After vacuum and retention have deleted much: the plans of reads go by it.
ANALYZE dl_active_files, dl_dead_files, dl_table_versions, dl_mirror_status, dl_txn_actions,
    dl_vacuum_files, dl_partitions, dl_partition_values;

-- name: source_lock
-- Whoever drops the source or vacuums it waits; those who append to it don't.
SELECT * FROM dl_hold_head(:table_id::bigint);
