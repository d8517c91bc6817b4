-- part: live_index

-- part: dead_index

-- part: summed_bytes
coalesce(sum(size_bytes), 0)

-- part: live_at
table_id = {table_id} AND version <= {version} AND removed_version > {version}

-- name: files_at
-- One statement over both tables: two would give torn answers beside a commit. A version that
-- has expired gives a row without a path: some of its files may be gone.
SELECT path, size_bytes AS size, modification_time, partition_values, stats, deletion_vector,
       num_records, data_change, tags, base_row_id, default_row_commit_version,
       clustering_provider, version, extra
FROM dl_active_files @part(live_index)
WHERE table_id = {table_id} AND version <= {version} AND {filter}
UNION ALL
SELECT path, size_bytes, modification_time, partition_values, stats, deletion_vector,
       num_records, data_change, tags, base_row_id, default_row_commit_version,
       clustering_provider, version, extra
FROM dl_dead_files @part(dead_index)
WHERE @part(live_at) AND {filter}
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM dl_table_heads
WHERE table_id = {table_id} AND earliest_version > {version};

-- name: partitions_all
SELECT partition_key, partition_values
FROM dl_partitions
WHERE table_id = :table_id;

-- name: partitions_matching
SELECT p.partition_key, p.partition_values
FROM ({keys}) AS k
CROSS JOIN dl_partitions AS p
WHERE p.table_id = {table_id} AND p.partition_key = k.partition_key;

-- name: partition_keys_in
SELECT v.partition_key
FROM dl_partition_values AS v
WHERE v.table_id = {table_id} AND v.name = {name} AND {condition};

-- name: partition_keys_part
SELECT part.partition_key FROM ({keys}) AS part;

-- name: partition_values_all
SELECT partition_key, name, form, value
FROM dl_partition_values
WHERE table_id = :table_id;

-- name: files_count
SELECT t.name, count(*)
FROM dl_tables AS t
JOIN dl_active_files AS f ON f.table_id = t.table_id
WHERE t.dropped_at IS NULL
GROUP BY t.name;
