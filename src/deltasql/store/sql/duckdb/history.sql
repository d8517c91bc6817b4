-- Differs: rows come in as Arrow tables, registered as dl_incoming.

-- name: history_stage
INSERT INTO dl_tables (table_id, name, location, protocol_min_reader, protocol_min_writer,
                       properties, dropped_id)
SELECT n, :name, :location, 1, 1, '{}', n
FROM (SELECT nextval('dl_table_ids') AS n) AS next
RETURNING table_id;

-- name: history_times_apart
-- Its one step needs no room: DuckDB checks uniqueness against the old row anyway.
SELECT 1 WHERE :table_id = :version AND :ict < 0;

-- name: history_times_set
UPDATE dl_table_versions
SET in_commit_timestamp = :ict - (:version - version),
    committed_at = to_timestamp(CAST(:ict - (:version - version) AS BIGINT) / 1000.0)
WHERE table_id = :table_id AND version < :version
  AND in_commit_timestamp > :ict - (:version - version);

-- name: history_unknown
INSERT INTO dl_dead_files (
    table_id, path_key, dv_key, path, deletion_vector, removed_version, deletion_timestamp,
    remove_data_change, remove_action)
SELECT :table_id, i.path_key, i.dv_key, i.path, i.deletion_vector, i.removed_version,
       i.deletion_timestamp, i.data_change, i.action
FROM dl_incoming AS i
WHERE i.action IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM dl_active_files AS a
    WHERE a.table_id = :table_id AND a.path_key = i.path_key AND a.dv_key = i.dv_key);

-- name: history_keep
INSERT INTO dl_dead_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, removed_version, deletion_timestamp, remove_data_change, remove_action)
SELECT
    a.table_id, a.version, a.path_key, a.dv_key, a.partition_key, a.size_bytes,
    a.modification_time, a.num_records, a.base_row_id, a.default_row_commit_version,
    a.data_change, a.min_keys, a.max_keys, a.null_counts, a.path, a.partition_values, a.stats,
    a.tags, a.deletion_vector, a.clustering_provider, a.extra, i.removed_version,
    i.deletion_timestamp, i.data_change, i.action
FROM dl_active_files AS a
JOIN dl_incoming AS i ON a.path_key = i.path_key AND a.dv_key = i.dv_key
WHERE a.table_id = :table_id;

-- name: history_adds
INSERT INTO dl_active_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
SELECT :table_id, i.* FROM dl_incoming AS i;

-- name: history_dead
INSERT INTO dl_dead_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, removed_version, deletion_timestamp, remove_data_change, remove_action)
SELECT :table_id, i.* FROM dl_incoming AS i;

-- name: history_txns
INSERT INTO dl_txn_actions (table_id, version, app_key, app_id, txn_version, last_updated)
SELECT :table_id, i.* FROM dl_incoming AS i;

-- name: history_domains
INSERT INTO dl_domain_metadata (table_id, version, domain_key, domain, configuration, removed)
SELECT :table_id, i.* FROM dl_incoming AS i;

-- name: history_cdc
INSERT INTO dl_cdc_files (table_id, version, path, size_bytes, partition_values, action)
SELECT :table_id, i.* FROM dl_incoming AS i;

-- name: history_metadata
INSERT INTO dl_metadata_updates
    (table_id, version, schema_json, partition_columns, table_properties, stats_columns, action)
SELECT :table_id, i.* FROM dl_incoming AS i;

-- name: history_protocol
INSERT INTO dl_protocol_updates
    (table_id, version, min_reader_version, min_writer_version, action)
SELECT :table_id, i.* FROM dl_incoming AS i;

-- name: history_versions
INSERT INTO dl_table_versions (
    table_id, version, commit_id, committed_at, in_commit_timestamp, committer, operation,
    operation_params, is_blind_append, digest, body_encoding, body)
SELECT :table_id, i.version, i.commit_id, to_timestamp(i.in_commit_timestamp / 1000.0),
       i.in_commit_timestamp, i.committer, i.operation, i.operation_params, i.is_blind_append,
       i.digest, i.body_encoding, i.body
FROM dl_incoming AS i;

-- name: history_status
INSERT INTO dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, mirrored_at, digest)
SELECT :table_id, i.version, 'SUCCESS', true, i.checkpoint_written,
       to_timestamp(i.in_commit_timestamp / 1000.0), i.digest
FROM dl_incoming AS i;
