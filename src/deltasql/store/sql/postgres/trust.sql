-- Differs: old versions by the range that has an index, as files_at does.

-- name: keys_at
SELECT path_key, dv_key, size_bytes, path, modification_time, partition_values, stats, tags,
       deletion_vector, base_row_id, default_row_commit_version, clustering_provider
FROM dl_active_files
WHERE table_id = {table_id} AND version <= {version}
UNION ALL
SELECT path_key, dv_key, size_bytes, path, modification_time, partition_values, stats, tags,
       deletion_vector, base_row_id, default_row_commit_version, clustering_provider
FROM dl_dead_files
WHERE version IS NOT NULL
  AND int8range((table_id << 40) | version, (table_id << 40) | removed_version)
      @> (({table_id}::bigint << 40) | {version}::bigint)
  AND table_id = {table_id};
