-- Differs: arrays in, COPY, and the lease's row locked until the part is in.

-- name: history_stage
INSERT INTO dl_tables (table_id, name, location, protocol_min_reader, protocol_min_writer,
                       properties, dropped_id)
OVERRIDING SYSTEM VALUE
SELECT n, :name, :location, 1, 1, '{}', n
FROM (SELECT nextval(pg_get_serial_sequence('dl_tables', 'table_id')) AS n) AS next
RETURNING table_id;

-- name: history_lease
SELECT l.token
FROM dl_mirror_leases AS l
JOIN dl_tables AS t ON t.table_id = l.table_id
WHERE l.table_id = :table_id AND l.work = 'COMMITS' AND l.token = :token
  AND l.expires_at > @now
  AND t.dropped_id = t.table_id AND t.dropped_at IS NULL
FOR UPDATE OF l;

-- name: history_plans
SELECT set_config('enable_seqscan', 'off', true);

-- name: history_times_set
UPDATE dl_table_versions
SET in_commit_timestamp = :ict::bigint - (:version::bigint - version),
    committed_at = to_timestamp((:ict::bigint - (:version::bigint - version)) / 1000.0)
WHERE table_id = :table_id AND in_commit_timestamp < 0;

-- name: history_retire
WITH gone AS MATERIALIZED (
    SELECT * FROM unnest(
        :versions::bigint[], :path_keys::bytea[], :dv_keys::bytea[], :paths::text[],
        :timestamps::bigint[], :changes::boolean[], :vectors::text[], :actions::text[]
    ) AS g (removed_version, path_key, dv_key, path, deletion_timestamp, remove_data_change,
            deletion_vector, remove_action)
), moved AS (
    DELETE FROM dl_active_files AS a USING gone AS g
    WHERE a.table_id = :table_id AND a.path_key = g.path_key AND a.dv_key = g.dv_key
    RETURNING a.*, g.removed_version, g.deletion_timestamp, g.remove_data_change,
              g.remove_action
), kept AS (
    INSERT INTO dl_dead_files SELECT * FROM moved
)
INSERT INTO dl_dead_files (table_id, path_key, dv_key, path, deletion_vector, removed_version,
                           deletion_timestamp, remove_data_change, remove_action)
SELECT :table_id, g.path_key, g.dv_key, g.path, g.deletion_vector, g.removed_version,
       g.deletion_timestamp, g.remove_data_change, g.remove_action
FROM gone AS g
WHERE g.remove_action IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM moved AS m WHERE m.path_key = g.path_key AND m.dv_key = g.dv_key);

-- name: history_dead_copy
COPY dl_dead_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra, removed_version, deletion_timestamp, remove_data_change, remove_action)
FROM STDIN;

-- name: history_txns
INSERT INTO dl_txn_actions (table_id, version, app_key, app_id, txn_version, last_updated)
SELECT :table_id, r.*
FROM json_to_recordset(:rows) AS r (
    version bigint, app_key bytea, app_id text, txn_version bigint, last_updated bigint);

-- name: history_domains
INSERT INTO dl_domain_metadata (table_id, version, domain_key, domain, configuration, removed)
SELECT :table_id, r.*
FROM json_to_recordset(:rows) AS r (
    version bigint, domain_key bytea, domain text, configuration text, removed boolean);

-- name: history_cdc
INSERT INTO dl_cdc_files (table_id, version, path, size_bytes, partition_values, action)
SELECT :table_id, r.*
FROM json_to_recordset(:rows) AS r (
    version bigint, path text, size_bytes bigint, partition_values text, action text);

-- name: history_metadata
INSERT INTO dl_metadata_updates
    (table_id, version, schema_json, partition_columns, table_properties, stats_columns, action)
SELECT :table_id, r.*
FROM json_to_recordset(:rows) AS r (
    version bigint, schema_json text, partition_columns text, table_properties text,
    stats_columns text, action text);

-- name: history_protocol
INSERT INTO dl_protocol_updates
    (table_id, version, min_reader_version, min_writer_version, action)
SELECT :table_id, r.*
FROM json_to_recordset(:rows) AS r (
    version bigint, min_reader_version integer, min_writer_version integer, action text);

-- name: history_partitions
INSERT INTO dl_partitions (table_id, partition_key, partition_values)
SELECT :table_id, r.*
FROM json_to_recordset(:rows) AS r (partition_key bigint, partition_values text)
ON CONFLICT DO NOTHING;

-- name: history_versions
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        :versions::bigint[], :commit_ids::text[], :times::bigint[], :committers::text[],
        :operations::text[], :params::text[], :blind::boolean[], :digests::bytea[],
        :encodings::text[], :bodies::bytea[], :checkpoints::boolean[]
    ) AS g (version, commit_id, ict, committer, operation, operation_params, is_blind_append,
            digest, body_encoding, body, checkpoint_written)
), written AS (
    INSERT INTO dl_table_versions (
        table_id, version, commit_id, committed_at, in_commit_timestamp, committer, operation,
        operation_params, is_blind_append, digest, body_encoding, body)
    SELECT :table_id, version, commit_id, to_timestamp(ict / 1000.0), ict, committer, operation,
           operation_params, is_blind_append, digest, body_encoding, body
    FROM given
)
INSERT INTO dl_mirror_status (table_id, version, status, json_written, checkpoint_written,
                              mirrored_at, digest)
SELECT :table_id, version, 'SUCCESS', true, checkpoint_written, to_timestamp(ict / 1000.0),
       digest
FROM given;
