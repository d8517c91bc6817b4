-- Differs: what only PostgreSQL has: functions, row locks, COPY, array parameters.

-- name: heads_get
SELECT table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version
FROM dl_table_heads
WHERE table_id = ANY(:table_ids);

-- name: heads_lock
SELECT * FROM dl_lock_heads(:table_ids::bigint[]);

-- name: mirror_notify
NOTIFY dl_mirror;

-- name: mirror_listen
LISTEN dl_mirror;

-- name: mirror_record
-- What the lease keeps and the status in one round trip. A server that crashes may lose it: then
-- the versions are found in the mirror, so nobody waits for the disk.
WITH held AS (
    UPDATE dl_mirror_leases
    SET mirrored_version = :newest_version, total_files = :files, total_bytes = :bytes,
        due_version = :due_version, actions_since = :actions_since,
        expires_at = @in_ms(:milliseconds)
    WHERE table_id = :table_id AND work = 'COMMITS' AND token = :token AND expires_at > @now
    RETURNING table_id, set_config('synchronous_commit', 'off', true)
)
UPDATE dl_mirror_status AS s
SET json_written = true,
    status = CASE WHEN s.version > 0
                       AND (s.version % :interval = 0 OR s.version = :due OR s.checkpoint_written)
                  THEN 'PENDING' ELSE 'SUCCESS' END,
    checkpoint_written = false,
    error_message = NULL,
    retry_count = 0,
    last_attempt_at = @now,
    mirrored_at = @now
FROM held
WHERE s.table_id = held.table_id AND s.version BETWEEN :first_version AND :last_version
RETURNING s.version;

-- Functions are called with the very types that they have: where PUBLIC may create functions, as up
-- to PostgreSQL 14, another one of the same name could fit better otherwise, and run as the writer.
-- name: commit_one
SELECT dl_commit(:table_id::bigint, :commit_id::text, :is_retry::boolean, :lock_timeout::text,
                 :expected::bigint, :metadata_version::bigint, :protocol_version::bigint,
                 :body_start::bytea, :body_middle::bytea, :body_end::bytea, :committer::text,
                 :operation::text, :operation_params::text, :transaction_id::text,
                 :is_blind_append::boolean, :adds::dl_added_file[], :removes::json, :txns::json,
                 :other::json, :may_have_vectors::boolean);

-- name: txn_seen
SELECT dl_seen_txn(:table_id::bigint, :txns::json);

-- name: rows_write
SELECT dl_write_next_rows(:table_id::bigint, :version::bigint, :adds::dl_added_file[], :removes::json,
                          :txns::json, :other::json, :may_have_vectors::boolean);

-- name: version_write
SELECT dl_write_next(:table_id::bigint, :version::bigint, :ict::bigint, :commit_id::text,
                     :digest::bytea, :encoding::text, :body::bytea, :committer::text,
                     :operation::text, :operation_params::text, :transaction_id::text,
                     :is_blind_append::boolean);

-- name: adds_copy
COPY dl_active_files (
    table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
    num_records, base_row_id, default_row_commit_version, data_change, min_keys, max_keys,
    null_counts, path, partition_values, stats, tags, deletion_vector, clustering_provider,
    extra)
FROM STDIN;

-- name: files_doubled
SELECT n.path
FROM dl_active_files AS n
JOIN dl_active_files AS o
  ON o.table_id = n.table_id AND o.path_key = n.path_key AND o.dv_key <> n.dv_key
WHERE n.table_id = :table_id AND n.version = :version
LIMIT 1;

-- name: versions_audit
-- By committed_at as well: it is the same time, and the one that has an index over all tables.
-- It knows no time before 1970 and none so late that a timestamp can't hold it.
SELECT t.name,
       v.table_id, v.version, v.commit_id, v.in_commit_timestamp, v.committer, v.operation,
       v.operation_params, v.transaction_id, v.is_blind_append, v.digest
FROM dl_table_versions AS v
JOIN dl_tables AS t ON t.table_id = v.table_id
WHERE v.committed_at >= to_timestamp(greatest(:start, 0) / 1000.0)
  AND v.committed_at <= to_timestamp(least(:stop, 9000000000000000) / 1000.0)
  AND v.in_commit_timestamp >= :start AND v.in_commit_timestamp < :stop
  -- Tables that are still being loaded have neither a place nor a time of dropping.
  AND (t.dropped_id = 0 OR t.dropped_at IS NOT NULL)
  AND (v.in_commit_timestamp, v.table_id, v.version) > (:after_time, :after_table, :after_version)
ORDER BY v.in_commit_timestamp, v.table_id, v.version
LIMIT :most;

-- name: table_create
SELECT * FROM dl_create_table(:name::text, :location::text, :protocol_min_reader::integer,
                              :protocol_min_writer::integer, :properties::text);

-- name: head_create
SELECT dl_create_head(:table_id::bigint, :ict::bigint);

-- name: place_take
SELECT * FROM dl_claim_place(:table_id::bigint, :place::text);

-- name: table_rename
SELECT * FROM dl_rename_table(:table_id::bigint, :name::text);

-- name: table_drop_whole
SELECT * FROM dl_drop_table(:table_id::bigint);

-- name: read_only_give
SELECT * FROM dl_set_read_only(:table_id::bigint, :reason::text);

-- name: places_lock
-- One at a time who takes a place or begins a purge. Commits never touch the table, and a purge that
-- deletes its row, in a long transaction, holds nobody up.
SELECT dl_lock_places();

-- name: may_commit
SELECT bool_or(has_function_privilege(p.oid, 'EXECUTE'))
FROM pg_proc AS p
JOIN pg_class AS c ON c.relnamespace = p.pronamespace
WHERE c.oid = 'dl_table_heads'::regclass AND p.proname = 'dl_commit' AND p.prosecdef;

-- name: may_purge
SELECT bool_and(has_table_privilege(name, 'DELETE'))
       AND has_table_privilege('dl_purges', 'INSERT')
FROM unnest(ARRAY[
    'dl_active_files', 'dl_cdc_files', 'dl_dead_files', 'dl_domain_metadata', 'dl_expirations',
    'dl_maintenance_jobs', 'dl_metadata_updates', 'dl_mirror_leases', 'dl_mirror_status',
    'dl_moved_rows', 'dl_optimize_bins', 'dl_partitions', 'dl_pins',
    'dl_places', 'dl_protocol_updates', 'dl_purges', 'dl_row_orders', 'dl_table_heads',
    'dl_table_sources', 'dl_table_versions', 'dl_tables', 'dl_trusted_versions', 'dl_txn_actions',
    'dl_vacuum_files', 'dl_vacuums'
]) AS name;

-- name: server_settings
SELECT name, setting
FROM pg_settings
WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes')
ORDER BY name;

-- name: everybody_may_create
-- No list of rights stands for the owner's alone.
SELECT EXISTS (
    SELECT FROM pg_namespace AS n, aclexplode(n.nspacl) AS r
    WHERE n.nspname = current_schema() AND r.grantee = 0 AND r.privilege_type = 'CREATE'
);

-- name: migration_lock
SELECT pg_advisory_xact_lock(7306642187411);

-- part: live_at
-- The range finds what was live at an old version by its index; two comparisons would read the
-- whole history.
version IS NOT NULL
  AND int8range((table_id << 40) | version, (table_id << 40) | removed_version)
      @> (({table_id}::bigint << 40) | {version}::bigint)
  AND table_id = {table_id}

-- name: server_identity
-- The timeline is that of the WAL being written: the control file's is one checkpoint late.
SELECT
    (SELECT system_identifier FROM pg_control_system()),
    CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END,
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database());

-- name: files_by_key
SELECT f.path_key, f.dv_key
FROM dl_active_files AS f
WHERE f.table_id = :table_id AND f.path_key IN (SELECT unnest(:keys::bytea[]))
UNION
SELECT f.path_key, f.dv_key
FROM dl_dead_files AS f
WHERE f.table_id = :table_id AND f.removed_version > :after
  AND f.path_key IN (SELECT unnest(:keys::bytea[]));

-- name: changes_by_path
SELECT path
FROM dl_cdc_files
WHERE table_id = :table_id AND version > :after
  AND path IN (SELECT unnest(:paths::text[]));

-- name: partitions_matching
-- One by one: what the planner believes of the index would make it read all partitions.
SELECT p.partition_key, p.partition_values
FROM ({keys}) AS k
CROSS JOIN LATERAL (
    SELECT d.partition_key, d.partition_values
    FROM dl_partitions AS d
    WHERE d.table_id = {table_id} AND d.partition_key = k.partition_key
    OFFSET 0
) AS p;
