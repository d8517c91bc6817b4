-- name: keys_at
SELECT path_key, dv_key, size_bytes, path, modification_time, partition_values, stats, tags,
       deletion_vector, base_row_id, default_row_commit_version, clustering_provider
FROM dl_active_files
WHERE table_id = {table_id} AND version <= {version}
UNION ALL
SELECT path_key, dv_key, size_bytes, path, modification_time, partition_values, stats, tags,
       deletion_vector, base_row_id, default_row_commit_version, clustering_provider
FROM dl_dead_files
WHERE @part(live_at);

-- name: sizes_at
SELECT path, size_bytes AS size
FROM dl_active_files
WHERE table_id = {table_id} AND version <= {version}
UNION ALL
SELECT path, size_bytes
FROM dl_dead_files
WHERE table_id = {table_id} AND version <= {version} AND removed_version > {version};

-- name: keys_ended
SELECT path_key, dv_key, size_bytes, path, modification_time, partition_values, stats, tags,
       deletion_vector, base_row_id, default_row_commit_version, clustering_provider
FROM dl_dead_files
WHERE table_id = {table_id} AND removed_version > {after} AND removed_version <= {upto}
  AND version <= {after};

-- name: keys_page
SELECT path_key, dv_key, size_bytes, path, modification_time, partition_values, stats, tags,
       deletion_vector, base_row_id, default_row_commit_version, clustering_provider
FROM dl_active_files
WHERE table_id = :table_id AND (path_key, dv_key) > (:path_key, :dv_key)
ORDER BY path_key, dv_key
LIMIT :most;

-- name: rows_files
-- One statement over both tables: a file that ends meanwhile is seen once.
SELECT version, path_key, dv_key, partition_key, size_bytes, modification_time, num_records,
       base_row_id, default_row_commit_version,
       CAST(CASE WHEN data_change THEN 1 ELSE 0 END AS bigint) AS data_change,
       min_keys, max_keys, null_counts, path, partition_values, stats, tags, deletion_vector,
       clustering_provider, extra,
       CAST(NULL AS bigint) AS removed_version, CAST(NULL AS bigint) AS deletion_timestamp,
       CAST(NULL AS bigint) AS remove_data_change, CAST(NULL AS text) AS remove_action
FROM dl_active_files
WHERE table_id = {table_id} AND version <= {version}
UNION ALL
SELECT version, path_key, dv_key, partition_key, size_bytes, modification_time, num_records,
       base_row_id, default_row_commit_version,
       CAST(CASE WHEN data_change IS NULL THEN NULL WHEN data_change THEN 1 ELSE 0 END AS bigint),
       min_keys, max_keys, null_counts, path, partition_values, stats, tags, deletion_vector,
       clustering_provider, extra,
       removed_version, deletion_timestamp,
       CAST(CASE WHEN remove_data_change IS NULL THEN NULL
                 WHEN remove_data_change THEN 1 ELSE 0 END AS bigint),
       remove_action
FROM dl_dead_files
WHERE table_id = {table_id} AND (version <= {version}
                                 OR version IS NULL AND removed_version <= {version});

-- name: rows_txns
SELECT version, app_key, app_id, txn_version, last_updated
FROM dl_txn_actions
WHERE table_id = {table_id} AND version <= {version};

-- name: rows_domains
SELECT version, domain_key, domain, configuration,
       CAST(CASE WHEN removed THEN 1 ELSE 0 END AS bigint) AS removed
FROM dl_domain_metadata
WHERE table_id = {table_id} AND version <= {version};

-- name: rows_cdc
SELECT version, path, size_bytes, partition_values, action
FROM dl_cdc_files
WHERE table_id = {table_id} AND version <= {version};

-- name: rows_metadata
SELECT version, schema_json, partition_columns, table_properties, stats_columns, action
FROM dl_metadata_updates
WHERE table_id = {table_id} AND version <= {version};

-- name: rows_protocol
SELECT version, CAST(min_reader_version AS bigint) AS min_reader_version,
       CAST(min_writer_version AS bigint) AS min_writer_version, action
FROM dl_protocol_updates
WHERE table_id = {table_id} AND version <= {version};

-- name: rows_versions
SELECT version, in_commit_timestamp, commit_id, committer, operation, operation_params,
       transaction_id, CAST(CASE WHEN is_blind_append THEN 1 ELSE 0 END AS bigint)
           AS is_blind_append
FROM dl_table_versions
WHERE table_id = {table_id} AND version <= {version};

-- name: commits_stored
SELECT version, in_commit_timestamp, digest, body_encoding, body, commit_id, committer, operation,
       operation_params, transaction_id, is_blind_append
FROM dl_table_versions
WHERE table_id = :table_id AND version > :after AND version <= :upto
ORDER BY version
LIMIT :most;

-- name: table_columns
SELECT properties, protocol_min_reader, protocol_min_writer
FROM dl_tables
WHERE table_id = :table_id;

-- name: trusted_get
SELECT origin, version, files, size_bytes, digest, rows_digest
FROM dl_trusted_versions
WHERE table_id = :table_id
ORDER BY version DESC, origin;

-- name: trusted_set
INSERT INTO dl_trusted_versions
    (table_id, origin, version, files, size_bytes, digest, rows_digest, trusted_at)
VALUES (:table_id, :origin, :version, :files, :size_bytes, :digest, :rows_digest, @now)
ON CONFLICT (table_id, origin) DO UPDATE
SET version = excluded.version, files = excluded.files, size_bytes = excluded.size_bytes,
    digest = excluded.digest, rows_digest = excluded.rows_digest,
    trusted_at = excluded.trusted_at
RETURNING version;

-- name: trusted_drop
DELETE FROM dl_trusted_versions
WHERE table_id = :table_id AND version > :after AND origin <> 'ADOPTED';

-- part: unless_live
ON CONFLICT DO NOTHING

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
      WHERE a.table_id = d.table_id AND a.path_key = d.path_key AND a.dv_key = d.dv_key)
@part(unless_live);

-- name: rebuild_partitions
INSERT INTO dl_partitions (table_id, partition_key, partition_values)
SELECT DISTINCT table_id, partition_key, partition_values
FROM dl_active_files
WHERE table_id = :table_id AND partition_values <> '{}'
ON CONFLICT DO NOTHING;

-- name: rebuild_version
UPDATE dl_table_versions
SET in_commit_timestamp = :ict, commit_id = :commit_id, committer = :committer,
    operation = :operation, operation_params = :operation_params,
    transaction_id = :transaction_id, is_blind_append = :is_blind_append
WHERE table_id = :table_id AND version = :version;

-- name: rebuild_head
UPDATE dl_table_heads
SET current_version = :version, last_ict = :last_ict, metadata_version = :metadata_version,
    protocol_version = :protocol_version
WHERE table_id = :table_id;

-- name: rebuild_table
UPDATE dl_tables
SET properties = :properties, protocol_min_reader = :min_reader,
    protocol_min_writer = :min_writer
WHERE table_id = :table_id;
