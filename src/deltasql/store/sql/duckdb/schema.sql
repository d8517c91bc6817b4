-- The head schema of a deltasql log in DuckDB: a public interface, made to be queried.
-- docs/schema.md explains it; migrations/ lead to exactly this.
--
-- Differs from PostgreSQL: no indexes but the unique ones, because DuckDB skips by the minima
-- and maxima of its row groups, and an index on many rows is held in memory whole.

CREATE TABLE dl_schema_migrations (
    version     INTEGER PRIMARY KEY,
    name        VARCHAR NOT NULL,
    applied_at  TIMESTAMPTZ NOT NULL DEFAULT now()
);
COMMENT ON TABLE dl_schema_migrations IS 'Migrations applied to this database, in order';
COMMENT ON COLUMN dl_schema_migrations.version IS 'Number of the migration';
COMMENT ON COLUMN dl_schema_migrations.name IS 'Name of the migration';
COMMENT ON COLUMN dl_schema_migrations.applied_at IS 'When it was applied';

CREATE SEQUENCE dl_table_ids;
CREATE TABLE dl_tables (
    table_id             BIGINT PRIMARY KEY DEFAULT nextval('dl_table_ids'),
    name                 VARCHAR NOT NULL,
    location             VARCHAR NOT NULL,
    protocol_min_reader  INTEGER NOT NULL,
    protocol_min_writer  INTEGER NOT NULL,
    properties           VARCHAR NOT NULL,
    created_at           TIMESTAMPTZ NOT NULL DEFAULT now(),
    dropped_at           TIMESTAMPTZ,
    dropped_id           BIGINT NOT NULL DEFAULT 0,
    read_only_reason     VARCHAR,
    mirror_paused        BOOLEAN NOT NULL DEFAULT false,
    UNIQUE (name, dropped_id)
);
COMMENT ON TABLE dl_tables IS 'The tables of the lake';
COMMENT ON COLUMN dl_tables.table_id IS 'Our own id; metaData.id may repeat and is only data';
COMMENT ON COLUMN dl_tables.name IS 'Name, by convention namespace.table';
COMMENT ON COLUMN dl_tables.location IS 'Root of the data files and of the mirror';
COMMENT ON COLUMN dl_tables.protocol_min_reader IS 'minReaderVersion of the current protocol';
COMMENT ON COLUMN dl_tables.protocol_min_writer IS 'minWriterVersion of the current protocol';
COMMENT ON COLUMN dl_tables.properties IS 'Current metaData.configuration, JSON';
COMMENT ON COLUMN dl_tables.created_at IS 'When the table entered the lake';
COMMENT ON COLUMN dl_tables.dropped_at IS 'When it was dropped; null while it lives';
COMMENT ON COLUMN dl_tables.dropped_id IS '0 while it lives, then its table_id, so that the name is free again';
COMMENT ON COLUMN dl_tables.read_only_reason IS 'Why deltasql may not write it; null if it may';
COMMENT ON COLUMN dl_tables.mirror_paused IS 'Whether mirroring is paused';

CREATE TABLE dl_places (
    table_id  BIGINT PRIMARY KEY,
    place     VARCHAR NOT NULL
);
COMMENT ON TABLE dl_places IS 'Which table lies where; no two live in one place, nor one within another';
COMMENT ON COLUMN dl_places.table_id IS 'The table';
COMMENT ON COLUMN dl_places.place IS 'Its location in one spelling for all, with a slash at the end; empty once another table has it';

CREATE TABLE dl_table_sources (
    table_id  BIGINT NOT NULL,
    source    VARCHAR NOT NULL,
    PRIMARY KEY (table_id, source)
);
COMMENT ON TABLE dl_table_sources IS 'Places outside of its own from which a table may read';
COMMENT ON COLUMN dl_table_sources.table_id IS 'The table';
COMMENT ON COLUMN dl_table_sources.source IS 'A place in the spelling of dl_places, with a slash at the end; empty for anywhere';

CREATE TABLE dl_purges (
    table_id    BIGINT PRIMARY KEY,
    started_at  TIMESTAMPTZ NOT NULL DEFAULT now()
);
COMMENT ON TABLE dl_purges IS 'Purges that have begun and not ended';
COMMENT ON COLUMN dl_purges.table_id IS 'The dropped table';
COMMENT ON COLUMN dl_purges.started_at IS 'When it began';

CREATE TABLE dl_table_heads (
    table_id          BIGINT PRIMARY KEY,
    current_version   BIGINT NOT NULL CHECK (current_version >= 0),
    last_ict          BIGINT NOT NULL,
    earliest_version  BIGINT NOT NULL DEFAULT 0,
    metadata_version  BIGINT NOT NULL,
    protocol_version  BIGINT NOT NULL
);
COMMENT ON TABLE dl_table_heads IS 'The newest version of each table';
COMMENT ON COLUMN dl_table_heads.table_id IS 'The table';
COMMENT ON COLUMN dl_table_heads.current_version IS 'Newest committed version';
COMMENT ON COLUMN dl_table_heads.last_ict IS 'In-commit timestamp of the newest version, epoch milliseconds';
COMMENT ON COLUMN dl_table_heads.earliest_version IS 'Oldest version that can be read';
COMMENT ON COLUMN dl_table_heads.metadata_version IS 'Version of the current metaData';
COMMENT ON COLUMN dl_table_heads.protocol_version IS 'Version of the current protocol';

CREATE TABLE dl_table_versions (
    table_id             BIGINT NOT NULL,
    version              BIGINT NOT NULL,
    commit_id            VARCHAR NOT NULL,
    committed_at         TIMESTAMPTZ NOT NULL,
    in_commit_timestamp  BIGINT NOT NULL,
    committer            VARCHAR,
    operation            VARCHAR,
    operation_params     VARCHAR,
    transaction_id       VARCHAR,
    is_blind_append      BOOLEAN NOT NULL,
    digest               BLOB NOT NULL,
    body_encoding        VARCHAR NOT NULL DEFAULT 'raw' CHECK (body_encoding IN ('raw', 'zstd')),
    body                 BLOB NOT NULL,
    PRIMARY KEY (table_id, version),
    UNIQUE (table_id, commit_id),
    UNIQUE (table_id, in_commit_timestamp)
);
COMMENT ON TABLE dl_table_versions IS 'Every committed version with the exact bytes of its commit file';
COMMENT ON COLUMN dl_table_versions.table_id IS 'The table';
COMMENT ON COLUMN dl_table_versions.version IS 'Version, contiguous';
COMMENT ON COLUMN dl_table_versions.commit_id IS 'Made by the client; makes a retry safe';
COMMENT ON COLUMN dl_table_versions.committed_at IS 'The in-commit timestamp as a time';
COMMENT ON COLUMN dl_table_versions.in_commit_timestamp IS 'Epoch milliseconds, strictly growing';
COMMENT ON COLUMN dl_table_versions.committer IS 'Who committed';
COMMENT ON COLUMN dl_table_versions.operation IS 'What was done, e.g. WRITE';
COMMENT ON COLUMN dl_table_versions.operation_params IS 'Parameters of the operation, JSON';
COMMENT ON COLUMN dl_table_versions.transaction_id IS 'Shared by the versions of a multi-table transaction';
COMMENT ON COLUMN dl_table_versions.is_blind_append IS 'Whether it added files and read none';
COMMENT ON COLUMN dl_table_versions.digest IS 'SHA-256 of the commit file';
COMMENT ON COLUMN dl_table_versions.body_encoding IS 'raw or zstd';
COMMENT ON COLUMN dl_table_versions.body IS 'The commit file';

-- Differs: no primary key. DuckDB checks uniqueness against rows that the same transaction has
-- deleted, and restating a file is a delete and an insert; the commit lock keeps files unique.
CREATE TABLE dl_active_files (
    table_id                    BIGINT NOT NULL,
    version                     BIGINT NOT NULL,
    path_key                    BLOB NOT NULL,
    dv_key                      BLOB NOT NULL,
    partition_key               BIGINT NOT NULL,
    size_bytes                  BIGINT NOT NULL,
    modification_time           BIGINT NOT NULL,
    num_records                 BIGINT,
    base_row_id                 BIGINT,
    default_row_commit_version  BIGINT,
    data_change                 BOOLEAN NOT NULL,
    min_keys                    DOUBLE[],
    max_keys                    DOUBLE[],
    null_counts                 BIGINT[],
    path                        VARCHAR NOT NULL,
    partition_values            VARCHAR NOT NULL,
    stats                       VARCHAR,
    tags                        VARCHAR,
    deletion_vector             VARCHAR,
    clustering_provider         VARCHAR,
    extra                       VARCHAR
);
COMMENT ON TABLE dl_active_files IS 'The live files of every table';
COMMENT ON COLUMN dl_active_files.table_id IS 'The table';
COMMENT ON COLUMN dl_active_files.version IS 'Version that added the file';
COMMENT ON COLUMN dl_active_files.path_key IS 'First 16 bytes of the SHA-256 of path';
COMMENT ON COLUMN dl_active_files.dv_key IS 'The same of the deletion vector''s id; empty without one';
COMMENT ON COLUMN dl_active_files.partition_key IS 'Hash of partition_values, see dl_partitions';
COMMENT ON COLUMN dl_active_files.size_bytes IS 'Size of the file';
COMMENT ON COLUMN dl_active_files.modification_time IS 'Epoch milliseconds';
COMMENT ON COLUMN dl_active_files.num_records IS 'numRecords of stats';
COMMENT ON COLUMN dl_active_files.base_row_id IS 'First row id, with row tracking';
COMMENT ON COLUMN dl_active_files.default_row_commit_version IS 'Default row commit version, with row tracking';
COMMENT ON COLUMN dl_active_files.data_change IS 'Whether the add changed the data';
COMMENT ON COLUMN dl_active_files.min_keys IS 'Order-preserving lower bounds, by ordinal of dl_metadata_updates.stats_columns';
COMMENT ON COLUMN dl_active_files.max_keys IS 'Order-preserving upper bounds, in the same order';
COMMENT ON COLUMN dl_active_files.null_counts IS 'Null counts, in the same order';
COMMENT ON COLUMN dl_active_files.path IS 'The path as the log has it (a URI)';
COMMENT ON COLUMN dl_active_files.partition_values IS 'JSON, verbatim';
COMMENT ON COLUMN dl_active_files.stats IS 'JSON, verbatim';
COMMENT ON COLUMN dl_active_files.tags IS 'JSON';
COMMENT ON COLUMN dl_active_files.deletion_vector IS 'JSON';
COMMENT ON COLUMN dl_active_files.clustering_provider IS 'Clustering implementation, if any';
COMMENT ON COLUMN dl_active_files.extra IS 'Fields of the add that the spec does not know, JSON';

CREATE TABLE dl_dead_files (
    table_id                    BIGINT NOT NULL,
    version                     BIGINT,
    path_key                    BLOB NOT NULL,
    dv_key                      BLOB NOT NULL,
    partition_key               BIGINT,
    size_bytes                  BIGINT,
    modification_time           BIGINT,
    num_records                 BIGINT,
    base_row_id                 BIGINT,
    default_row_commit_version  BIGINT,
    data_change                 BOOLEAN,
    min_keys                    DOUBLE[],
    max_keys                    DOUBLE[],
    null_counts                 BIGINT[],
    path                        VARCHAR NOT NULL,
    partition_values            VARCHAR,
    stats                       VARCHAR,
    tags                        VARCHAR,
    deletion_vector             VARCHAR,
    clustering_provider         VARCHAR,
    extra                       VARCHAR,
    removed_version             BIGINT NOT NULL,
    deletion_timestamp          BIGINT,
    remove_data_change          BOOLEAN,
    remove_action               VARCHAR
);
COMMENT ON TABLE dl_dead_files IS 'Files that were live once, and removes whose add is unknown';
COMMENT ON COLUMN dl_dead_files.table_id IS 'The table';
COMMENT ON COLUMN dl_dead_files.version IS 'Version that added the file; null if unknown';
COMMENT ON COLUMN dl_dead_files.path_key IS 'First 16 bytes of the SHA-256 of path';
COMMENT ON COLUMN dl_dead_files.dv_key IS 'The same of the deletion vector''s id; empty without one';
COMMENT ON COLUMN dl_dead_files.partition_key IS 'Hash of partition_values, see dl_partitions';
COMMENT ON COLUMN dl_dead_files.size_bytes IS 'Size of the file';
COMMENT ON COLUMN dl_dead_files.modification_time IS 'Epoch milliseconds';
COMMENT ON COLUMN dl_dead_files.num_records IS 'numRecords of stats';
COMMENT ON COLUMN dl_dead_files.base_row_id IS 'First row id, with row tracking';
COMMENT ON COLUMN dl_dead_files.default_row_commit_version IS 'Default row commit version, with row tracking';
COMMENT ON COLUMN dl_dead_files.data_change IS 'Whether the add changed the data';
COMMENT ON COLUMN dl_dead_files.min_keys IS 'Order-preserving lower bounds';
COMMENT ON COLUMN dl_dead_files.max_keys IS 'Order-preserving upper bounds';
COMMENT ON COLUMN dl_dead_files.null_counts IS 'Null counts';
COMMENT ON COLUMN dl_dead_files.path IS 'The path as the log has it (a URI)';
COMMENT ON COLUMN dl_dead_files.partition_values IS 'JSON, verbatim';
COMMENT ON COLUMN dl_dead_files.stats IS 'JSON, verbatim';
COMMENT ON COLUMN dl_dead_files.tags IS 'JSON';
COMMENT ON COLUMN dl_dead_files.deletion_vector IS 'JSON';
COMMENT ON COLUMN dl_dead_files.clustering_provider IS 'Clustering implementation, if any';
COMMENT ON COLUMN dl_dead_files.extra IS 'Fields of the add that the spec does not know, JSON';
COMMENT ON COLUMN dl_dead_files.removed_version IS 'Version that removed or restated the file';
COMMENT ON COLUMN dl_dead_files.deletion_timestamp IS 'deletionTimestamp of the remove, epoch milliseconds';
COMMENT ON COLUMN dl_dead_files.remove_data_change IS 'dataChange of the remove';
COMMENT ON COLUMN dl_dead_files.remove_action IS 'The remove, JSON; null if a later add restated the file';

CREATE TABLE dl_partitions (
    table_id          BIGINT NOT NULL,
    partition_key     BIGINT NOT NULL,
    partition_values  VARCHAR NOT NULL,
    PRIMARY KEY (table_id, partition_key)
);
COMMENT ON TABLE dl_partitions IS 'Partitions that files were ever added to';
COMMENT ON COLUMN dl_partitions.table_id IS 'The table';
COMMENT ON COLUMN dl_partitions.partition_key IS 'First 8 bytes of the SHA-256 of partition_values';
COMMENT ON COLUMN dl_partitions.partition_values IS 'JSON, canonical';

-- No triggers and no indexes on ranges here: a view, which reads all partitions of the table.
CREATE VIEW dl_partition_values AS
    SELECT table_id, partition_key, item.key AS name,
           CASE
               WHEN coalesce(item.value, '') = '' THEN 'null'
               WHEN regexp_matches(item.value, '^[+-]?[0-9]{1,38}([.][0-9]{0,38})?$') THEN 'number'
               WHEN regexp_matches(item.value, '^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]|$)') THEN 'day'
               ELSE 'other'
           END AS form,
           left(nullif(item.value, ''), 100) AS value,
           CASE
               WHEN regexp_matches(item.value, '^[+-]?[0-9]{1,38}([.][0-9]{0,38})?$')
               THEN TRY_CAST(item.value AS DOUBLE)
           END AS number
    FROM (
        SELECT table_id, partition_key,
               unnest(map_entries(CAST(CAST(partition_values AS JSON) AS MAP(VARCHAR, VARCHAR))))
                   AS item
        FROM dl_partitions
    ) AS items;
COMMENT ON VIEW dl_partition_values IS 'What conditions on partition values are decided by';
COMMENT ON COLUMN dl_partition_values.table_id IS 'The table';
COMMENT ON COLUMN dl_partition_values.partition_key IS 'The partition';
COMMENT ON COLUMN dl_partition_values.name IS 'Physical name of the partition column';
COMMENT ON COLUMN dl_partition_values.form IS 'What the value looks like: null, number, day or other';
COMMENT ON COLUMN dl_partition_values.value IS 'Its first 100 characters; null if there is none';
COMMENT ON COLUMN dl_partition_values.number IS 'The number that it is, if its form is number';

CREATE TABLE dl_metadata_updates (
    table_id           BIGINT NOT NULL,
    version            BIGINT NOT NULL,
    schema_json        VARCHAR NOT NULL,
    partition_columns  VARCHAR NOT NULL,
    table_properties   VARCHAR NOT NULL,
    stats_columns      VARCHAR NOT NULL,
    action             VARCHAR NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_metadata_updates IS 'Every metaData action';
COMMENT ON COLUMN dl_metadata_updates.table_id IS 'The table';
COMMENT ON COLUMN dl_metadata_updates.version IS 'Version that made it current';
COMMENT ON COLUMN dl_metadata_updates.schema_json IS 'schemaString, verbatim';
COMMENT ON COLUMN dl_metadata_updates.partition_columns IS 'Partition columns, JSON array';
COMMENT ON COLUMN dl_metadata_updates.table_properties IS 'configuration, JSON';
COMMENT ON COLUMN dl_metadata_updates.stats_columns IS 'Columns behind min_keys, max_keys and null_counts, JSON';
COMMENT ON COLUMN dl_metadata_updates.action IS 'The whole action, JSON';

CREATE TABLE dl_protocol_updates (
    table_id            BIGINT NOT NULL,
    version             BIGINT NOT NULL,
    min_reader_version  INTEGER NOT NULL,
    min_writer_version  INTEGER NOT NULL,
    action              VARCHAR NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_protocol_updates IS 'Every protocol action';
COMMENT ON COLUMN dl_protocol_updates.table_id IS 'The table';
COMMENT ON COLUMN dl_protocol_updates.version IS 'Version that made it current';
COMMENT ON COLUMN dl_protocol_updates.min_reader_version IS 'minReaderVersion';
COMMENT ON COLUMN dl_protocol_updates.min_writer_version IS 'minWriterVersion';
COMMENT ON COLUMN dl_protocol_updates.action IS 'The whole action, features included, JSON';

CREATE TABLE dl_txn_actions (
    table_id      BIGINT NOT NULL,
    app_key       BLOB NOT NULL,
    version       BIGINT NOT NULL,
    app_id        VARCHAR NOT NULL,
    txn_version   BIGINT NOT NULL,
    last_updated  BIGINT,
    PRIMARY KEY (table_id, app_key, version)
);
COMMENT ON TABLE dl_txn_actions IS 'Every txn action: how far each application got';
COMMENT ON COLUMN dl_txn_actions.table_id IS 'The table';
COMMENT ON COLUMN dl_txn_actions.app_key IS 'First 16 bytes of the SHA-256 of app_id';
COMMENT ON COLUMN dl_txn_actions.version IS 'Version that holds the action';
COMMENT ON COLUMN dl_txn_actions.app_id IS 'appId';
COMMENT ON COLUMN dl_txn_actions.txn_version IS 'The application''s own version';
COMMENT ON COLUMN dl_txn_actions.last_updated IS 'lastUpdated, epoch milliseconds';

CREATE TABLE dl_domain_metadata (
    table_id       BIGINT NOT NULL,
    domain_key     BLOB NOT NULL,
    version        BIGINT NOT NULL,
    domain         VARCHAR NOT NULL,
    configuration  VARCHAR NOT NULL,
    removed        BOOLEAN NOT NULL,
    PRIMARY KEY (table_id, domain_key, version)
);
COMMENT ON TABLE dl_domain_metadata IS 'Every domainMetadata action';
COMMENT ON COLUMN dl_domain_metadata.table_id IS 'The table';
COMMENT ON COLUMN dl_domain_metadata.domain_key IS 'First 16 bytes of the SHA-256 of domain';
COMMENT ON COLUMN dl_domain_metadata.version IS 'Version that holds the action';
COMMENT ON COLUMN dl_domain_metadata.domain IS 'Name of the domain';
COMMENT ON COLUMN dl_domain_metadata.configuration IS 'Its configuration';
COMMENT ON COLUMN dl_domain_metadata.removed IS 'Whether the action removes the domain';

CREATE TABLE dl_cdc_files (
    table_id          BIGINT NOT NULL,
    version           BIGINT NOT NULL,
    path              VARCHAR NOT NULL,
    size_bytes        BIGINT NOT NULL,
    partition_values  VARCHAR NOT NULL,
    action            VARCHAR NOT NULL
);
COMMENT ON TABLE dl_cdc_files IS 'Every cdc action';
COMMENT ON COLUMN dl_cdc_files.table_id IS 'The table';
COMMENT ON COLUMN dl_cdc_files.version IS 'Version that holds the action';
COMMENT ON COLUMN dl_cdc_files.path IS 'The path as the log has it (a URI)';
COMMENT ON COLUMN dl_cdc_files.size_bytes IS 'Size of the file';
COMMENT ON COLUMN dl_cdc_files.partition_values IS 'JSON';
COMMENT ON COLUMN dl_cdc_files.action IS 'The whole action, JSON';

CREATE TABLE dl_mirror_status (
    table_id            BIGINT NOT NULL,
    version             BIGINT NOT NULL,
    status              VARCHAR NOT NULL CHECK (status IN ('PENDING', 'SUCCESS', 'FAILED')),
    json_written        BOOLEAN NOT NULL DEFAULT false,
    checkpoint_written  BOOLEAN NOT NULL DEFAULT false,
    error_message       VARCHAR,
    retry_count         INTEGER NOT NULL DEFAULT 0,
    last_attempt_at     TIMESTAMPTZ,
    mirrored_at         TIMESTAMPTZ,
    digest              BLOB NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_mirror_status IS 'Whether each version has reached the object store';
COMMENT ON COLUMN dl_mirror_status.table_id IS 'The table';
COMMENT ON COLUMN dl_mirror_status.version IS 'The version';
COMMENT ON COLUMN dl_mirror_status.status IS 'PENDING from the commit on, then SUCCESS or FAILED';
COMMENT ON COLUMN dl_mirror_status.json_written IS 'Whether the commit file is there';
COMMENT ON COLUMN dl_mirror_status.checkpoint_written IS 'Whether the checkpoint due at this version is there';
COMMENT ON COLUMN dl_mirror_status.error_message IS 'Why the last attempt failed';
COMMENT ON COLUMN dl_mirror_status.retry_count IS 'Failed attempts so far';
COMMENT ON COLUMN dl_mirror_status.last_attempt_at IS 'When the last attempt began';
COMMENT ON COLUMN dl_mirror_status.mirrored_at IS 'When it succeeded';
COMMENT ON COLUMN dl_mirror_status.digest IS 'SHA-256 of the commit file';

CREATE TABLE dl_mirror_leases (
    table_id    BIGINT NOT NULL,
    work        VARCHAR NOT NULL CHECK (work IN ('COMMITS', 'CHECKPOINTS')),
    holder      VARCHAR NOT NULL,
    token       BIGINT NOT NULL,
    expires_at  TIMESTAMPTZ NOT NULL,
    mirrored_version  BIGINT,
    total_files       BIGINT,
    total_bytes       BIGINT,
    due_version       BIGINT,
    actions_since     BIGINT,
    checkpoint_actions  BIGINT,
    PRIMARY KEY (table_id, work)
);
COMMENT ON TABLE dl_mirror_leases IS 'Who mirrors a table now: one run per table and kind of work at a time';
COMMENT ON COLUMN dl_mirror_leases.table_id IS 'The table';
COMMENT ON COLUMN dl_mirror_leases.work IS 'What is mirrored: commit files and checkpoints don''t wait for each other';
COMMENT ON COLUMN dl_mirror_leases.holder IS 'The worker';
COMMENT ON COLUMN dl_mirror_leases.token IS 'Fencing token, growing; every status write must show it';
COMMENT ON COLUMN dl_mirror_leases.expires_at IS 'When the lease ends by the database''s clock';
COMMENT ON COLUMN dl_mirror_leases.mirrored_version IS 'Newest version in the mirror';
COMMENT ON COLUMN dl_mirror_leases.total_files IS 'Live files at that version';
COMMENT ON COLUMN dl_mirror_leases.total_bytes IS 'Their size';
COMMENT ON COLUMN dl_mirror_leases.due_version IS 'Newest version at which a checkpoint fell due';
COMMENT ON COLUMN dl_mirror_leases.actions_since IS 'Actions in the commit files after it';
COMMENT ON COLUMN dl_mirror_leases.checkpoint_actions IS 'Actions in the newest checkpoint';

CREATE TABLE dl_trusted_versions (
    table_id     BIGINT NOT NULL,
    origin       VARCHAR NOT NULL CHECK (origin IN ('ADOPTED', 'CHECKED', 'CHECKPOINT')),
    version      BIGINT NOT NULL,
    files        BIGINT NOT NULL,
    size_bytes   BIGINT NOT NULL,
    digest       BLOB NOT NULL,
    rows_digest  BLOB,
    trusted_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (table_id, origin)
);
COMMENT ON TABLE dl_trusted_versions IS 'What was proven of a version, for checks to begin with';
COMMENT ON COLUMN dl_trusted_versions.table_id IS 'The table';
COMMENT ON COLUMN dl_trusted_versions.origin IS 'Why it is trusted: ADOPTED, CHECKED or CHECKPOINT';
COMMENT ON COLUMN dl_trusted_versions.version IS 'The version';
COMMENT ON COLUMN dl_trusted_versions.files IS 'Live files at that version';
COMMENT ON COLUMN dl_trusted_versions.size_bytes IS 'Their size';
COMMENT ON COLUMN dl_trusted_versions.digest IS 'Sums of the hashes of the live files, their statistics and all other actions, in any order';
COMMENT ON COLUMN dl_trusted_versions.rows_digest IS 'The same over every row up to that version; null where they were not looked at';
COMMENT ON COLUMN dl_trusted_versions.trusted_at IS 'When it was written down';

CREATE TABLE dl_sessions (
    session_id     VARCHAR PRIMARY KEY,
    kind           VARCHAR NOT NULL,
    host           VARCHAR NOT NULL,
    pid            BIGINT NOT NULL,
    committer      VARCHAR,
    started_at     TIMESTAMPTZ NOT NULL,
    heartbeat_at   TIMESTAMPTZ NOT NULL,
    writing_since  TIMESTAMPTZ
);
COMMENT ON TABLE dl_sessions IS 'Processes that write: one row each, made with their first write';
COMMENT ON COLUMN dl_sessions.session_id IS 'Made by the process';
COMMENT ON COLUMN dl_sessions.kind IS 'What it is: python, spark or worker';
COMMENT ON COLUMN dl_sessions.host IS 'The machine';
COMMENT ON COLUMN dl_sessions.pid IS 'The process there';
COMMENT ON COLUMN dl_sessions.committer IS 'As whom it commits';
COMMENT ON COLUMN dl_sessions.started_at IS 'When it began';
COMMENT ON COLUMN dl_sessions.heartbeat_at IS 'When it was last heard of';
COMMENT ON COLUMN dl_sessions.writing_since IS 'Since when it may have files that are not committed; null if there was no write under way';

CREATE TABLE dl_pins (
    pin_id      VARCHAR PRIMARY KEY,
    table_id    BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    reason      VARCHAR NOT NULL,
    session_id  VARCHAR,
    created_at  TIMESTAMPTZ NOT NULL,
    expires_at  TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE dl_pins IS 'Versions that are held open: vacuum keeps their files';
COMMENT ON COLUMN dl_pins.pin_id IS 'Made by the holder';
COMMENT ON COLUMN dl_pins.table_id IS 'The table';
COMMENT ON COLUMN dl_pins.version IS 'The version that is held';
COMMENT ON COLUMN dl_pins.reason IS 'What for';
COMMENT ON COLUMN dl_pins.session_id IS 'The holder''s row in dl_sessions, if it has one';
COMMENT ON COLUMN dl_pins.created_at IS 'Since when';
COMMENT ON COLUMN dl_pins.expires_at IS 'Until when, by the database''s clock, unless it is renewed';

CREATE TABLE dl_vacuums (
    vacuum_id     VARCHAR PRIMARY KEY,
    table_id      BIGINT NOT NULL,
    committer     VARCHAR,
    host          VARCHAR NOT NULL,
    retention_ms  BIGINT NOT NULL,
    kept_since    BIGINT NOT NULL,
    started_at    TIMESTAMPTZ NOT NULL,
    ended_at      TIMESTAMPTZ
);
COMMENT ON TABLE dl_vacuums IS 'Every vacuum that deleted, or set out to';
COMMENT ON COLUMN dl_vacuums.vacuum_id IS 'Made by the process that ran it';
COMMENT ON COLUMN dl_vacuums.table_id IS 'The table';
COMMENT ON COLUMN dl_vacuums.committer IS 'Who ran it';
COMMENT ON COLUMN dl_vacuums.host IS 'On which machine';
COMMENT ON COLUMN dl_vacuums.retention_ms IS 'The retention it kept to, in milliseconds';
COMMENT ON COLUMN dl_vacuums.kept_since IS 'What was current at this time or later stayed, epoch milliseconds';
COMMENT ON COLUMN dl_vacuums.started_at IS 'When it began';
COMMENT ON COLUMN dl_vacuums.ended_at IS 'When it was done; null if it was cut off or is under way';

CREATE TABLE dl_vacuum_files (
    vacuum_id     VARCHAR NOT NULL,
    batch         BIGINT NOT NULL,
    table_id      BIGINT NOT NULL,
    path_key      BLOB NOT NULL,
    kind          VARCHAR NOT NULL CHECK (kind IN ('DEAD', 'VECTOR', 'CHANGE', 'ORPHAN')),
    at_version    BIGINT NOT NULL,
    size_bytes    BIGINT,
    journaled_at  TIMESTAMPTZ NOT NULL,
    deleted_at    TIMESTAMPTZ,
    path          VARCHAR NOT NULL,
    PRIMARY KEY (vacuum_id, path_key)
);
CREATE INDEX dl_vacuum_files_path ON dl_vacuum_files (table_id, path_key);
COMMENT ON TABLE dl_vacuum_files IS 'What vacuum deletes: written down, then deleted, then marked';
COMMENT ON COLUMN dl_vacuum_files.vacuum_id IS 'The vacuum';
COMMENT ON COLUMN dl_vacuum_files.batch IS 'What was written down together, counted from 0';
COMMENT ON COLUMN dl_vacuum_files.table_id IS 'The table';
COMMENT ON COLUMN dl_vacuum_files.path_key IS 'First 16 bytes of the SHA-256 of path';
COMMENT ON COLUMN dl_vacuum_files.kind IS 'Why: DEAD data file, VECTOR file, CHANGE file, or ORPHAN that no version knew';
COMMENT ON COLUMN dl_vacuum_files.at_version IS 'The table''s version when it was written down';
COMMENT ON COLUMN dl_vacuum_files.size_bytes IS 'Size of the file, if it was known';
COMMENT ON COLUMN dl_vacuum_files.journaled_at IS 'When it was written down';
COMMENT ON COLUMN dl_vacuum_files.deleted_at IS 'When it was gone; null if that is not known';
COMMENT ON COLUMN dl_vacuum_files.path IS 'The path as the log has it, or would have it (a URI)';

CREATE TABLE dl_optimize_bins (
    bin_id         VARCHAR PRIMARY KEY,
    table_id       BIGINT NOT NULL,
    settings       VARCHAR NOT NULL,
    files          VARCHAR NOT NULL,
    size_bytes     BIGINT NOT NULL,
    created_at     TIMESTAMPTZ NOT NULL,
    expires_at     TIMESTAMPTZ NOT NULL,
    claimed_by     VARCHAR,
    claimed_until  TIMESTAMPTZ
);
COMMENT ON TABLE dl_optimize_bins IS 'Files that optimize is about to write together: a queue that processes share';
COMMENT ON COLUMN dl_optimize_bins.bin_id IS 'Made by the process that planned it; bins of one plan in their order';
COMMENT ON COLUMN dl_optimize_bins.table_id IS 'The table';
COMMENT ON COLUMN dl_optimize_bins.settings IS 'What was asked for, a JSON object: whoever asks for the same takes part';
COMMENT ON COLUMN dl_optimize_bins.files IS 'Paths as the log has them, a JSON array';
COMMENT ON COLUMN dl_optimize_bins.size_bytes IS 'Size of the files together';
COMMENT ON COLUMN dl_optimize_bins.created_at IS 'When it was planned';
COMMENT ON COLUMN dl_optimize_bins.expires_at IS 'Until when it holds its place, by the database''s clock, unless somebody goes on with the queue';
COMMENT ON COLUMN dl_optimize_bins.claimed_by IS 'Who works on it; null while nobody does';
COMMENT ON COLUMN dl_optimize_bins.claimed_until IS 'Until when, by the database''s clock, unless that is renewed';

CREATE TABLE dl_moved_rows (
    table_id    BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    row_counts  VARCHAR NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_moved_rows IS 'Where optimize put rows: what was live of the files that a version removed, one after the other by their paths, are the rows of those it added';
COMMENT ON COLUMN dl_moved_rows.table_id IS 'The table';
COMMENT ON COLUMN dl_moved_rows.version IS 'The version of optimize''s commit';
COMMENT ON COLUMN dl_moved_rows.row_counts IS 'How many rows were live in each removed file, in the order of their paths, a JSON array';
COMMENT ON COLUMN dl_moved_rows.created_at IS 'When it was committed; kept for as long as removed files are';

CREATE TABLE dl_row_orders (
    table_id    BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    row_counts  VARCHAR NOT NULL,
    row_order   BLOB NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_row_orders IS 'Where optimize put rows that it sorted: what was live of the files that a version removed, one after the other by their paths, and the place that each row has in those it added';
COMMENT ON COLUMN dl_row_orders.table_id IS 'The table';
COMMENT ON COLUMN dl_row_orders.version IS 'The version of optimize''s commit';
COMMENT ON COLUMN dl_row_orders.row_counts IS 'How many rows were live in each removed file, in the order of their paths, a JSON array';
COMMENT ON COLUMN dl_row_orders.row_order IS 'The place of each of these rows among those of the added files, one after the other by their paths: 32-bit numbers, little-endian, in zlib';
COMMENT ON COLUMN dl_row_orders.created_at IS 'When it was committed; kept for as long as removed files are';

CREATE TABLE dl_expirations (
    table_id       BIGINT NOT NULL,
    horizon        BIGINT NOT NULL,
    first_version  BIGINT NOT NULL,
    committer      VARCHAR,
    host           VARCHAR NOT NULL,
    started_at     TIMESTAMPTZ NOT NULL,
    ended_at       TIMESTAMPTZ,
    PRIMARY KEY (table_id, horizon)
);
COMMENT ON TABLE dl_expirations IS 'Versions that left the history: all before the horizon';
COMMENT ON COLUMN dl_expirations.table_id IS 'The table';
COMMENT ON COLUMN dl_expirations.horizon IS 'The oldest version that can be read since';
COMMENT ON COLUMN dl_expirations.first_version IS 'The oldest version that could be read before';
COMMENT ON COLUMN dl_expirations.committer IS 'Who ran it';
COMMENT ON COLUMN dl_expirations.host IS 'On which machine';
COMMENT ON COLUMN dl_expirations.started_at IS 'When the versions expired';
COMMENT ON COLUMN dl_expirations.ended_at IS 'When their rows were gone; null if it was cut off or is under way';

CREATE TABLE dl_maintenance_jobs (
    job_id      VARCHAR NOT NULL,
    table_id    BIGINT NOT NULL,
    work        VARCHAR NOT NULL,
    reason      VARCHAR NOT NULL,
    queued_at   TIMESTAMPTZ NOT NULL,
    holder      VARCHAR,
    expires_at  TIMESTAMPTZ,
    started_at  TIMESTAMPTZ,
    ended_at    TIMESTAMPTZ,
    size_bytes  BIGINT,
    outcome     VARCHAR,
    PRIMARY KEY (job_id)
);
COMMENT ON TABLE dl_maintenance_jobs IS 'What upkeep in the background is to do, is doing and did';
COMMENT ON COLUMN dl_maintenance_jobs.job_id IS 'Made by the worker that queued it';
COMMENT ON COLUMN dl_maintenance_jobs.table_id IS 'The table';
COMMENT ON COLUMN dl_maintenance_jobs.work IS 'What is done: VACUUM, EXPIRE, ANALYZE or another kind that is registered';
COMMENT ON COLUMN dl_maintenance_jobs.reason IS 'What made it due';
COMMENT ON COLUMN dl_maintenance_jobs.queued_at IS 'When it was queued';
COMMENT ON COLUMN dl_maintenance_jobs.holder IS 'The worker that does it, or did';
COMMENT ON COLUMN dl_maintenance_jobs.expires_at IS 'Until when it is the holder''s, by the database''s clock';
COMMENT ON COLUMN dl_maintenance_jobs.started_at IS 'When it was begun; null while it waits';
COMMENT ON COLUMN dl_maintenance_jobs.ended_at IS 'When it was done, or given up';
COMMENT ON COLUMN dl_maintenance_jobs.size_bytes IS 'How many bytes it deleted or wrote';
COMMENT ON COLUMN dl_maintenance_jobs.outcome IS 'What came of it; begins with failed: if it failed';

CREATE TABLE dl_namespaces (
    name        VARCHAR NOT NULL,
    properties  VARCHAR NOT NULL,
    PRIMARY KEY (name)
);
COMMENT ON TABLE dl_namespaces IS 'Namespaces that were created or described; a table''s name is enough for its own';
COMMENT ON COLUMN dl_namespaces.name IS 'Words with dots between them';
COMMENT ON COLUMN dl_namespaces.properties IS 'Its properties and its comment, JSON';

CREATE VIEW dl_add_files AS
    SELECT table_id, version, path, size_bytes, partition_values, stats, data_change,
           modification_time, deletion_vector, dv_key
    FROM dl_active_files
    UNION ALL
    SELECT table_id, version, path, size_bytes, partition_values, stats, data_change,
           modification_time, deletion_vector, dv_key
    FROM dl_dead_files
    WHERE version IS NOT NULL;
COMMENT ON VIEW dl_add_files IS 'Every add action';

CREATE VIEW dl_remove_files AS
    SELECT table_id, removed_version AS version, path, deletion_timestamp,
           remove_data_change AS data_change, deletion_vector, dv_key
    FROM dl_dead_files
    WHERE remove_action IS NOT NULL;
COMMENT ON VIEW dl_remove_files IS 'Every remove action';

CREATE VIEW vw_latest_action_per_path AS
    SELECT table_id, path, version, is_add, deletion_vector
    FROM (
        SELECT table_id, path, version, is_add, deletion_vector,
               row_number() OVER (
                   PARTITION BY table_id, path, dv_key ORDER BY version DESC, is_add DESC
               ) AS place
        FROM (
            SELECT table_id, path, version, true AS is_add, deletion_vector, dv_key
            FROM dl_add_files
            UNION ALL
            SELECT table_id, path, version, false AS is_add, deletion_vector, dv_key
            FROM dl_remove_files
        ) AS actions
    ) AS ranked
    WHERE place = 1;
COMMENT ON VIEW vw_latest_action_per_path IS 'The newest add or remove of each file';

CREATE VIEW vw_active_files AS
    SELECT table_id, version, path, size_bytes, partition_values, stats, data_change,
           modification_time, deletion_vector
    FROM dl_active_files;
COMMENT ON VIEW vw_active_files IS 'The live files of every table';

CREATE VIEW vw_file_lifetimes AS
    SELECT table_id, version, CAST(NULL AS BIGINT) AS removed_version, path, size_bytes,
           partition_values, stats, modification_time, deletion_vector
    FROM dl_active_files
    UNION ALL
    SELECT table_id, version, removed_version, path, size_bytes, partition_values, stats,
           modification_time, deletion_vector
    FROM dl_dead_files
    WHERE version IS NOT NULL;
COMMENT ON VIEW vw_file_lifetimes IS 'Every file with the version that added it and the one that removed it';

CREATE MACRO active_files_at(of_table, at_version) AS TABLE
    SELECT path, size_bytes, partition_values, stats, modification_time, deletion_vector, version
    FROM vw_file_lifetimes
    WHERE table_id = of_table AND version <= at_version
      AND (removed_version IS NULL OR removed_version > at_version);
