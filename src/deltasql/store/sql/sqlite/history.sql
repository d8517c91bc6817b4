-- Differs: rows bound by position, an id that has to be asked for, times as text.

-- name: history_stage
INSERT INTO dl_tables (table_id, name, location, protocol_min_reader, protocol_min_writer,
                       properties, dropped_id)
SELECT n, :name, :location, 1, 1, '{}', n
FROM (
    SELECT 1 + max(coalesce((SELECT max(table_id) FROM dl_tables), 0),
                   coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'dl_tables'), 0)) AS n
) AS next
RETURNING table_id;

-- name: history_times_set
UPDATE dl_table_versions
SET in_commit_timestamp = :ict - (:version - version),
    committed_at = strftime('%Y-%m-%d %H:%M:%f', (:ict - (:version - version)) / 1000.0,
                            'unixepoch')
WHERE table_id = :table_id AND in_commit_timestamp < 0;

-- name: history_adds
INSERT INTO dl_active_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: history_dead
INSERT INTO dl_dead_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, removed_version, deletion_timestamp, remove_data_change, remove_action)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: history_version
INSERT INTO dl_table_versions (
    table_id, version, commit_id, committed_at, in_commit_timestamp, committer, operation,
    operation_params, is_blind_append, digest, body_encoding, body)
VALUES (?1, ?2, ?3, strftime('%Y-%m-%d %H:%M:%f', ?4 / 1000.0, 'unixepoch'), ?4, ?5, ?6, ?7, ?8,
        ?9, ?10, ?11);

-- name: history_status
INSERT INTO dl_mirror_status (
    table_id, version, status, json_written, checkpoint_written, mirrored_at, digest)
VALUES (?1, ?2, 'SUCCESS', 1, ?3, strftime('%Y-%m-%d %H:%M:%f', ?4 / 1000.0, 'unixepoch'), ?5);
