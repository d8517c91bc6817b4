-- The head schema of a deltasql log in PostgreSQL: a public interface, made to be queried.
-- docs/schema.md explains it; migrations/ lead to exactly this.

-- Domains, where a CHECK of the table would be parsed anew by every commit.
CREATE DOMAIN dl_body_encoding AS text CHECK (VALUE IN ('raw', 'zstd'));
COMMENT ON DOMAIN dl_body_encoding IS 'How a commit file is kept';
CREATE DOMAIN dl_mirror_outcome AS text CHECK (VALUE IN ('PENDING', 'SUCCESS', 'FAILED'));
COMMENT ON DOMAIN dl_mirror_outcome IS 'How far a version is mirrored';

CREATE TABLE dl_schema_migrations (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE dl_schema_migrations IS 'Migrations applied to this database, in order';
COMMENT ON COLUMN dl_schema_migrations.version IS 'Number of the migration';
COMMENT ON COLUMN dl_schema_migrations.name IS 'Name of the migration';
COMMENT ON COLUMN dl_schema_migrations.applied_at IS 'When it was applied';

CREATE TABLE dl_tables (
    table_id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                 text NOT NULL,
    location             text NOT NULL,
    protocol_min_reader  integer NOT NULL,
    protocol_min_writer  integer NOT NULL,
    properties           text NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT now(),
    dropped_at           timestamptz,
    dropped_id           bigint NOT NULL DEFAULT 0,
    read_only_reason     text,
    mirror_paused        boolean NOT NULL DEFAULT false,
    UNIQUE (name, dropped_id),
    -- Keys of the interval index hold the table in the upper 23 bits.
    CHECK (table_id < 8388608)
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
    table_id  bigint PRIMARY KEY,
    place     text NOT NULL
);
COMMENT ON TABLE dl_places IS 'Which table lies where; no two live in one place, nor one within another';
COMMENT ON COLUMN dl_places.table_id IS 'The table';
COMMENT ON COLUMN dl_places.place IS 'Its location in one spelling for all, with a slash at the end; empty once another table has it';

CREATE TABLE dl_table_sources (
    table_id  bigint NOT NULL,
    source    text NOT NULL,
    PRIMARY KEY (table_id, source)
);
COMMENT ON TABLE dl_table_sources IS 'Places outside of its own from which a table may read';
COMMENT ON COLUMN dl_table_sources.table_id IS 'The table';
COMMENT ON COLUMN dl_table_sources.source IS 'A place in the spelling of dl_places, with a slash at the end; empty for anywhere';

CREATE TABLE dl_purges (
    table_id    bigint PRIMARY KEY,
    started_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE dl_purges IS 'Purges that have begun and not ended';
COMMENT ON COLUMN dl_purges.table_id IS 'The dropped table';
COMMENT ON COLUMN dl_purges.started_at IS 'When it began';

CREATE TABLE dl_table_heads (
    table_id          bigint PRIMARY KEY,
    current_version   bigint NOT NULL CHECK (current_version >= 0),
    last_ict          bigint NOT NULL,
    earliest_version  bigint NOT NULL DEFAULT 0,
    metadata_version  bigint NOT NULL,
    protocol_version  bigint NOT NULL
) WITH (fillfactor = 10);
COMMENT ON TABLE dl_table_heads IS 'The newest version of each table; its row is the lock that commits queue on';
COMMENT ON COLUMN dl_table_heads.table_id IS 'The table';
COMMENT ON COLUMN dl_table_heads.current_version IS 'Newest committed version';
COMMENT ON COLUMN dl_table_heads.last_ict IS 'In-commit timestamp of the newest version, epoch milliseconds';
COMMENT ON COLUMN dl_table_heads.earliest_version IS 'Oldest version that can be read';
COMMENT ON COLUMN dl_table_heads.metadata_version IS 'Version of the current metaData';
COMMENT ON COLUMN dl_table_heads.protocol_version IS 'Version of the current protocol';

CREATE TABLE dl_table_versions (
    table_id             bigint NOT NULL,
    version              bigint NOT NULL,
    commit_id            text NOT NULL,
    committed_at         timestamptz NOT NULL,
    in_commit_timestamp  bigint NOT NULL,
    committer            text,
    operation            text,
    operation_params     text,
    transaction_id       text,
    is_blind_append      boolean NOT NULL,
    digest               bytea NOT NULL,
    body_encoding        dl_body_encoding NOT NULL DEFAULT 'raw',
    body                 bytea NOT NULL,
    PRIMARY KEY (table_id, version),
    UNIQUE (table_id, commit_id),
    UNIQUE (table_id, in_commit_timestamp)
);
ALTER TABLE dl_table_versions ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX dl_table_versions_committed_at ON dl_table_versions USING brin (committed_at);
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

CREATE TABLE dl_active_files (
    table_id                    bigint NOT NULL,
    version                     bigint NOT NULL,
    path_key                    bytea NOT NULL,
    dv_key                      bytea NOT NULL,
    partition_key               bigint NOT NULL,
    size_bytes                  bigint NOT NULL,
    modification_time           bigint NOT NULL,
    num_records                 bigint,
    base_row_id                 bigint,
    default_row_commit_version  bigint,
    data_change                 boolean NOT NULL,
    min_keys                    double precision[],
    max_keys                    double precision[],
    null_counts                 bigint[],
    path                        text NOT NULL,
    partition_values            text NOT NULL,
    stats                       text,
    tags                        text,
    deletion_vector             text,
    clustering_provider         text,
    extra                       text,
    PRIMARY KEY (table_id, path_key, dv_key)
) WITH (
    -- The live table is rewritten all the time: keep it lean.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02
);
CREATE INDEX dl_active_files_partition ON dl_active_files (table_id, partition_key);
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
    table_id                    bigint NOT NULL,
    version                     bigint,
    path_key                    bytea NOT NULL,
    dv_key                      bytea NOT NULL,
    partition_key               bigint,
    size_bytes                  bigint,
    modification_time           bigint,
    num_records                 bigint,
    base_row_id                 bigint,
    default_row_commit_version  bigint,
    data_change                 boolean,
    min_keys                    double precision[],
    max_keys                    double precision[],
    null_counts                 bigint[],
    path                        text NOT NULL,
    partition_values            text,
    stats                       text,
    tags                        text,
    deletion_vector             text,
    clustering_provider         text,
    extra                       text,
    removed_version             bigint NOT NULL,
    deletion_timestamp          bigint,
    remove_data_change          boolean,
    remove_action               text
);
-- Answers "alive at V" for old versions; btrees on both ends mislead the planner.
CREATE INDEX dl_dead_files_interval ON dl_dead_files USING gist (
    int8range((table_id << 40) | version, (table_id << 40) | removed_version)
) WHERE version IS NOT NULL;
CREATE INDEX dl_dead_files_removed ON dl_dead_files (table_id, removed_version);
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
    table_id          bigint NOT NULL,
    partition_key     bigint NOT NULL,
    partition_values  text NOT NULL,
    PRIMARY KEY (table_id, partition_key)
);
COMMENT ON TABLE dl_partitions IS 'Partitions that files were ever added to';
COMMENT ON COLUMN dl_partitions.table_id IS 'The table';
COMMENT ON COLUMN dl_partitions.partition_key IS 'First 8 bytes of the SHA-256 of partition_values';
COMMENT ON COLUMN dl_partitions.partition_values IS 'JSON, canonical';

CREATE TABLE dl_partition_values (
    table_id       bigint NOT NULL,
    partition_key  bigint NOT NULL,
    name           text COLLATE "C" NOT NULL,
    form           text NOT NULL,
    value          text COLLATE "C",
    number         double precision,
    PRIMARY KEY (table_id, partition_key, name)
);
COMMENT ON TABLE dl_partition_values IS 'What conditions on partition values are decided by';
COMMENT ON COLUMN dl_partition_values.table_id IS 'The table';
COMMENT ON COLUMN dl_partition_values.partition_key IS 'The partition';
COMMENT ON COLUMN dl_partition_values.name IS 'Physical name of the partition column';
COMMENT ON COLUMN dl_partition_values.form IS 'What the value looks like: null, number, day or other';
COMMENT ON COLUMN dl_partition_values.value IS 'Its first 100 characters; null if there is none';
COMMENT ON COLUMN dl_partition_values.number IS 'The number that it is, if its form is number';
CREATE INDEX dl_partition_values_value ON dl_partition_values (table_id, name, value);
CREATE INDEX dl_partition_values_number ON dl_partition_values (table_id, name, form, number);
-- A column's values have one form: without this the planner takes them for independent.
CREATE STATISTICS dl_partition_values_forms (mcv) ON table_id, name, form FROM dl_partition_values;

CREATE TABLE dl_metadata_updates (
    table_id           bigint NOT NULL,
    version            bigint NOT NULL,
    schema_json        text NOT NULL,
    partition_columns  text NOT NULL,
    table_properties   text NOT NULL,
    stats_columns      text NOT NULL,
    action             text NOT NULL,
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
    table_id            bigint NOT NULL,
    version             bigint NOT NULL,
    min_reader_version  integer NOT NULL,
    min_writer_version  integer NOT NULL,
    action              text NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_protocol_updates IS 'Every protocol action';
COMMENT ON COLUMN dl_protocol_updates.table_id IS 'The table';
COMMENT ON COLUMN dl_protocol_updates.version IS 'Version that made it current';
COMMENT ON COLUMN dl_protocol_updates.min_reader_version IS 'minReaderVersion';
COMMENT ON COLUMN dl_protocol_updates.min_writer_version IS 'minWriterVersion';
COMMENT ON COLUMN dl_protocol_updates.action IS 'The whole action, features included, JSON';

CREATE TABLE dl_txn_actions (
    table_id      bigint NOT NULL,
    app_key       bytea NOT NULL,
    version       bigint NOT NULL,
    app_id        text NOT NULL,
    txn_version   bigint NOT NULL,
    last_updated  bigint,
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
    table_id       bigint NOT NULL,
    domain_key     bytea NOT NULL,
    version        bigint NOT NULL,
    domain         text NOT NULL,
    configuration  text NOT NULL,
    removed        boolean NOT NULL,
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
    table_id          bigint NOT NULL,
    version           bigint NOT NULL,
    path              text NOT NULL,
    size_bytes        bigint NOT NULL,
    partition_values  text NOT NULL,
    action            text NOT NULL
);
CREATE INDEX dl_cdc_files_version ON dl_cdc_files (table_id, version);
COMMENT ON TABLE dl_cdc_files IS 'Every cdc action';
COMMENT ON COLUMN dl_cdc_files.table_id IS 'The table';
COMMENT ON COLUMN dl_cdc_files.version IS 'Version that holds the action';
COMMENT ON COLUMN dl_cdc_files.path IS 'The path as the log has it (a URI)';
COMMENT ON COLUMN dl_cdc_files.size_bytes IS 'Size of the file';
COMMENT ON COLUMN dl_cdc_files.partition_values IS 'JSON';
COMMENT ON COLUMN dl_cdc_files.action IS 'The whole action, JSON';

CREATE TABLE dl_mirror_status (
    table_id            bigint NOT NULL,
    version             bigint NOT NULL,
    status              dl_mirror_outcome NOT NULL,
    json_written        boolean NOT NULL DEFAULT false,
    checkpoint_written  boolean NOT NULL DEFAULT false,
    error_message       text,
    retry_count         integer NOT NULL DEFAULT 0,
    last_attempt_at     timestamptz,
    mirrored_at         timestamptz,
    digest              bytea NOT NULL,
    PRIMARY KEY (table_id, version)
);
-- The mirror looks for the few versions that are not done.
CREATE INDEX dl_mirror_status_open ON dl_mirror_status (table_id, version)
WHERE status <> 'SUCCESS';
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
    table_id    bigint NOT NULL,
    work        text NOT NULL CHECK (work IN ('COMMITS', 'CHECKPOINTS')),
    holder      text NOT NULL,
    token       bigint NOT NULL,
    expires_at  timestamptz NOT NULL,
    mirrored_version  bigint,
    total_files       bigint,
    total_bytes       bigint,
    due_version       bigint,
    actions_since     bigint,
    checkpoint_actions  bigint,
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
    table_id     bigint NOT NULL,
    origin       text NOT NULL CHECK (origin IN ('ADOPTED', 'CHECKED', 'CHECKPOINT')),
    version      bigint NOT NULL,
    files        bigint NOT NULL,
    size_bytes   bigint NOT NULL,
    digest       bytea NOT NULL,
    rows_digest  bytea,
    trusted_at   timestamptz NOT NULL DEFAULT now(),
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
    session_id     text PRIMARY KEY,
    kind           text NOT NULL,
    host           text NOT NULL,
    pid            bigint NOT NULL,
    committer      text,
    started_at     timestamptz NOT NULL,
    heartbeat_at   timestamptz NOT NULL,
    writing_since  timestamptz
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
    pin_id      text PRIMARY KEY,
    table_id    bigint NOT NULL,
    version     bigint NOT NULL,
    reason      text NOT NULL,
    session_id  text,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
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
    vacuum_id     text PRIMARY KEY,
    table_id      bigint NOT NULL,
    committer     text,
    host          text NOT NULL,
    retention_ms  bigint NOT NULL,
    kept_since    bigint NOT NULL,
    started_at    timestamptz NOT NULL,
    ended_at      timestamptz
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
    vacuum_id     text NOT NULL,
    batch         bigint NOT NULL,
    table_id      bigint NOT NULL,
    path_key      bytea NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('DEAD', 'VECTOR', 'CHANGE', 'ORPHAN')),
    at_version    bigint NOT NULL,
    size_bytes    bigint,
    journaled_at  timestamptz NOT NULL,
    deleted_at    timestamptz,
    path          text NOT NULL,
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
    bin_id         text PRIMARY KEY,
    table_id       bigint NOT NULL,
    settings       text NOT NULL,
    files          text NOT NULL,
    size_bytes     bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    claimed_by     text,
    claimed_until  timestamptz
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
    table_id    bigint NOT NULL,
    version     bigint NOT NULL,
    row_counts  text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_moved_rows IS 'Where optimize put rows: what was live of the files that a version removed, one after the other by their paths, are the rows of those it added';
COMMENT ON COLUMN dl_moved_rows.table_id IS 'The table';
COMMENT ON COLUMN dl_moved_rows.version IS 'The version of optimize''s commit';
COMMENT ON COLUMN dl_moved_rows.row_counts IS 'How many rows were live in each removed file, in the order of their paths, a JSON array';
COMMENT ON COLUMN dl_moved_rows.created_at IS 'When it was committed; kept for as long as removed files are';

CREATE TABLE dl_row_orders (
    table_id    bigint NOT NULL,
    version     bigint NOT NULL,
    row_counts  text NOT NULL,
    row_order   bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_row_orders IS 'Where optimize put rows that it sorted: what was live of the files that a version removed, one after the other by their paths, and the place that each row has in those it added';
COMMENT ON COLUMN dl_row_orders.table_id IS 'The table';
COMMENT ON COLUMN dl_row_orders.version IS 'The version of optimize''s commit';
COMMENT ON COLUMN dl_row_orders.row_counts IS 'How many rows were live in each removed file, in the order of their paths, a JSON array';
COMMENT ON COLUMN dl_row_orders.row_order IS 'The place of each of these rows among those of the added files, one after the other by their paths: 32-bit numbers, little-endian, in zlib';
COMMENT ON COLUMN dl_row_orders.created_at IS 'When it was committed; kept for as long as removed files are';

CREATE TABLE dl_expirations (
    table_id       bigint NOT NULL,
    horizon        bigint NOT NULL,
    first_version  bigint NOT NULL,
    committer      text,
    host           text NOT NULL,
    started_at     timestamptz NOT NULL,
    ended_at       timestamptz,
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
    job_id      text NOT NULL,
    table_id    bigint NOT NULL,
    work        text NOT NULL,
    reason      text NOT NULL,
    queued_at   timestamptz NOT NULL,
    holder      text,
    expires_at  timestamptz,
    started_at  timestamptz,
    ended_at    timestamptz,
    size_bytes  bigint,
    outcome     text,
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
    name        text NOT NULL,
    properties  text NOT NULL,
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
    SELECT table_id, version, CAST(NULL AS bigint) AS removed_version, path, size_bytes,
           partition_values, stats, modification_time, deletion_vector
    FROM dl_active_files
    UNION ALL
    SELECT table_id, version, removed_version, path, size_bytes, partition_values, stats,
           modification_time, deletion_vector
    FROM dl_dead_files
    WHERE version IS NOT NULL;
COMMENT ON VIEW vw_file_lifetimes IS 'Every file with the version that added it and the one that removed it';
