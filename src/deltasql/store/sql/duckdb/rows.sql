-- Differs: rows come in as Arrow tables, registered as dl_incoming; one add is bound by name.

-- name: add_insert
INSERT INTO dl_active_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
SELECT
    :table_id, :version, :path_key, :dv_key, :partition_key, :size_bytes, :modification_time,
    :num_records, :base_row_id, :default_row_commit_version, :data_change, :min_keys, :max_keys,
    :null_counts, :path, :partition_values, :stats, :tags, :deletion_vector,
    :clustering_provider, :extra
WHERE NOT EXISTS (
    SELECT 1 FROM dl_active_files WHERE table_id = :table_id AND path_key = :path_key)
RETURNING 1;

-- name: adds_insert
INSERT INTO dl_active_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
SELECT
    :table_id, :version, i.path_key, i.dv_key, i.partition_key, i.size_bytes,
    i.modification_time, i.num_records, i.base_row_id, i.default_row_commit_version,
    i.data_change, i.min_keys, i.max_keys, i.null_counts, i.path, i.partition_values, i.stats,
    i.tags, i.deletion_vector, i.clustering_provider, i.extra
FROM dl_incoming AS i;

-- name: adds_live
-- How many of the files are live already, and one whose path is so under another vector.
SELECT count(*), min(a.path) FILTER (WHERE a.dv_key <> i.dv_key)
FROM dl_active_files AS a
JOIN dl_incoming AS i ON a.path_key = i.path_key
WHERE a.table_id = :table_id;

-- name: restated_keep
INSERT INTO dl_dead_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, removed_version, deletion_timestamp, remove_data_change, remove_action)
SELECT
    a.table_id, a.version, a.path_key, a.dv_key, a.partition_key, a.size_bytes,
    a.modification_time, a.num_records, a.base_row_id, a.default_row_commit_version,
    a.data_change, a.min_keys, a.max_keys, a.null_counts, a.path, a.partition_values, a.stats,
    a.tags, a.deletion_vector, a.clustering_provider, a.extra, :version, NULL, NULL, NULL
FROM dl_active_files AS a
JOIN dl_incoming AS i ON a.path_key = i.path_key AND a.dv_key = i.dv_key
WHERE a.table_id = :table_id;

-- name: incoming_delete
DELETE FROM dl_active_files AS a
USING dl_incoming AS i
WHERE a.table_id = :table_id AND a.path_key = i.path_key AND a.dv_key = i.dv_key;

-- name: removed_keep
INSERT INTO dl_dead_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, removed_version, deletion_timestamp, remove_data_change, remove_action)
SELECT
    a.table_id, a.version, a.path_key, a.dv_key, a.partition_key, a.size_bytes,
    a.modification_time, a.num_records, a.base_row_id, a.default_row_commit_version,
    a.data_change, a.min_keys, a.max_keys, a.null_counts, a.path, a.partition_values, a.stats,
    a.tags, a.deletion_vector, a.clustering_provider, a.extra, :version, i.deletion_timestamp,
    i.data_change, i.action
FROM dl_active_files AS a
JOIN dl_incoming AS i ON a.path_key = i.path_key AND a.dv_key = i.dv_key
WHERE a.table_id = :table_id;

-- name: removed_unknown
INSERT INTO dl_dead_files (
    table_id, path_key, dv_key, path, deletion_vector, removed_version, deletion_timestamp,
    remove_data_change, remove_action)
SELECT :table_id, i.path_key, i.dv_key, i.path, i.deletion_vector, :version,
       i.deletion_timestamp, i.data_change, i.action
FROM dl_incoming AS i
WHERE NOT EXISTS (
    SELECT 1 FROM dl_active_files AS a
    WHERE a.table_id = :table_id AND a.path_key = i.path_key AND a.dv_key = i.dv_key);

-- name: txns_insert
INSERT INTO dl_txn_actions (table_id, version, app_key, app_id, txn_version, last_updated)
SELECT :table_id, :version, i.* FROM dl_incoming AS i;

-- name: domains_insert
INSERT INTO dl_domain_metadata (table_id, version, domain_key, domain, configuration, removed)
SELECT :table_id, :version, i.* FROM dl_incoming AS i;

-- name: cdc_insert
INSERT INTO dl_cdc_files (table_id, version, path, size_bytes, partition_values, action)
SELECT :table_id, :version, i.* FROM dl_incoming AS i;

-- name: metadata_insert
INSERT INTO dl_metadata_updates
    (table_id, version, schema_json, partition_columns, table_properties, stats_columns, action)
SELECT :table_id, :version, i.* FROM dl_incoming AS i;

-- name: protocol_insert
INSERT INTO dl_protocol_updates
    (table_id, version, min_reader_version, min_writer_version, action)
SELECT :table_id, :version, i.* FROM dl_incoming AS i;

-- name: partitions_insert
INSERT INTO dl_partitions (table_id, partition_key, partition_values)
SELECT :table_id, i.* FROM dl_incoming AS i
ON CONFLICT DO NOTHING;
