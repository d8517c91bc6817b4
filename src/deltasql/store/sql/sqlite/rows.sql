-- Differs: rows bound by position, which is the quickest way into SQLite.

-- name: adds_insert
INSERT INTO dl_active_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
SELECT
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21
WHERE NOT EXISTS (
    SELECT 1 FROM dl_active_files WHERE table_id = ?1 AND path_key = ?3);

-- name: restated_clash
SELECT path
FROM dl_active_files
WHERE table_id = ?1 AND path_key = ?2 AND dv_key <> ?3
LIMIT 1;

-- name: restated_keep
INSERT INTO dl_dead_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, removed_version, deletion_timestamp, remove_data_change, remove_action)
SELECT
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, ?4, NULL, NULL, NULL
FROM dl_active_files
WHERE table_id = ?1 AND path_key = ?2 AND dv_key = ?3 AND version < ?4;

-- name: restated_delete
DELETE FROM dl_active_files
WHERE table_id = ?1 AND path_key = ?2 AND dv_key = ?3 AND version < ?4;

-- name: removed_keep
INSERT INTO dl_dead_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, removed_version, deletion_timestamp, remove_data_change, remove_action)
SELECT
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, ?2, ?6, ?7, ?9
FROM dl_active_files
WHERE table_id = ?1 AND path_key = ?3 AND dv_key = ?4;

-- name: removed_unknown
INSERT INTO dl_dead_files (
    table_id, path_key, dv_key, path, deletion_vector, removed_version, deletion_timestamp,
    remove_data_change, remove_action)
SELECT ?1, ?3, ?4, ?5, ?8, ?2, ?6, ?7, ?9
WHERE NOT EXISTS (
    SELECT 1 FROM dl_active_files WHERE table_id = ?1 AND path_key = ?3 AND dv_key = ?4);

-- name: removed_delete
DELETE FROM dl_active_files
WHERE table_id = ?1 AND path_key = ?2 AND dv_key = ?3;

-- name: txns_insert
INSERT INTO dl_txn_actions (table_id, version, app_key, app_id, txn_version, last_updated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: domains_insert
INSERT INTO dl_domain_metadata (table_id, version, domain_key, domain, configuration, removed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: cdc_insert
INSERT INTO dl_cdc_files (table_id, version, path, size_bytes, partition_values, action)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: metadata_insert
INSERT INTO dl_metadata_updates
    (table_id, version, schema_json, partition_columns, table_properties, stats_columns, action)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: protocol_insert
INSERT INTO dl_protocol_updates
    (table_id, version, min_reader_version, min_writer_version, action)
VALUES (?1, ?2, ?3, ?4, ?5);

-- name: partitions_insert
INSERT INTO dl_partitions (table_id, partition_key, partition_values)
VALUES (?1, ?3, ?4)
ON CONFLICT DO NOTHING;
