-- Differs: live files have no key that a conflict could be with.

-- name: rebuild_back
-- Where damage has left a file live and dead at once, the live row stays.
INSERT INTO dl_active_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
SELECT
    d.table_id, d.version, d.path_key, d.dv_key, d.partition_key, d.size_bytes,
    d.modification_time, d.num_records, d.base_row_id, d.default_row_commit_version,
    d.data_change, d.min_keys, d.max_keys, d.null_counts, d.path, d.partition_values, d.stats,
    d.tags, d.deletion_vector, d.clustering_provider, d.extra
FROM dl_dead_files AS d
WHERE d.table_id = :table_id AND d.removed_version > :after AND d.version <= :after
  AND NOT EXISTS (
      SELECT 1 FROM dl_active_files AS a
      WHERE a.table_id = d.table_id AND a.path_key = d.path_key AND a.dv_key = d.dv_key);
