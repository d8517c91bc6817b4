-- A history loaded in bulk: see store/history.py. Staged tables count as dropped, but have no
-- time at which they were.

-- name: history_staged
SELECT t.table_id, t.name, t.location,
       (SELECT max(v.version) FROM dl_table_versions AS v WHERE v.table_id = t.table_id)
FROM dl_tables AS t
WHERE t.dropped_id = t.table_id AND t.dropped_at IS NULL
ORDER BY t.table_id;

-- name: history_location
SELECT location FROM dl_tables WHERE table_id = :table_id;

-- name: history_lease
-- A table that is finished is nobody's to load any more.
SELECT l.token
FROM dl_mirror_leases AS l
JOIN dl_tables AS t ON t.table_id = l.table_id
WHERE l.table_id = :table_id AND l.work = 'COMMITS' AND l.token = :token
  AND l.expires_at > @now
  AND t.dropped_id = t.table_id AND t.dropped_at IS NULL;

-- name: history_times_apart
-- Two steps, since every time is unique: first out of the way, then where they belong.
UPDATE dl_table_versions
SET in_commit_timestamp = -1 - version
WHERE table_id = :table_id AND version < :version
  AND in_commit_timestamp > :ict - (:version - version);

-- name: history_head
INSERT INTO dl_table_heads
    (table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version)
VALUES (:table_id, :version, :last_ict, :earliest_version, :metadata_version,
        :protocol_version);

-- name: history_show
UPDATE dl_tables
SET name = :name, dropped_id = 0, properties = :properties, protocol_min_reader = :min_reader,
    protocol_min_writer = :min_writer, read_only_reason = :read_only_reason
WHERE table_id = :table_id AND dropped_at IS NULL
RETURNING table_id;

-- name: history_trim_adds
DELETE FROM dl_active_files WHERE table_id = :table_id AND version > :after;

-- name: history_trim_back
INSERT INTO dl_active_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
SELECT
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra
FROM dl_dead_files
WHERE table_id = :table_id AND removed_version > :after AND version <= :after;

-- name: history_trim_dead
DELETE FROM dl_dead_files WHERE table_id = :table_id AND removed_version > :after;

-- name: history_trim_txns
DELETE FROM dl_txn_actions WHERE table_id = :table_id AND version > :after;

-- name: history_trim_domains
DELETE FROM dl_domain_metadata WHERE table_id = :table_id AND version > :after;

-- name: history_trim_cdc
DELETE FROM dl_cdc_files WHERE table_id = :table_id AND version > :after;

-- name: history_trim_metadata
DELETE FROM dl_metadata_updates WHERE table_id = :table_id AND version > :after;

-- name: history_trim_protocol
DELETE FROM dl_protocol_updates WHERE table_id = :table_id AND version > :after;

-- name: history_trim_status
DELETE FROM dl_mirror_status WHERE table_id = :table_id AND version > :after;

-- name: history_trim_versions
DELETE FROM dl_table_versions WHERE table_id = :table_id AND version > :after;

-- name: read_only_get
SELECT read_only_reason FROM dl_tables WHERE table_id = :table_id;

-- name: read_only_set
UPDATE dl_tables SET read_only_reason = :reason
WHERE table_id = :table_id AND dropped_id = 0
RETURNING table_id;
