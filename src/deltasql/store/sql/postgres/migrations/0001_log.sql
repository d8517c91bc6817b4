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

-- The commit inside the database: one round trip for a small commit.

CREATE TYPE dl_added_file AS (
    path_key bytea, dv_key bytea, partition_key bigint, size_bytes bigint,
    modification_time bigint, num_records bigint, base_row_id bigint,
    default_row_commit_version bigint, data_change boolean,
    min_keys double precision[], max_keys double precision[], null_counts bigint[],
    path text, partition_values text, stats text, tags text, deletion_vector text,
    clustering_provider text, extra text
);
COMMENT ON TYPE dl_added_file IS 'A row of dl_active_files without its table and version';

-- Plans are cached for as long as a connection lives, and the first commits meet small tables:
-- without sequential scans the plan is right for large ones too.
CREATE FUNCTION dl_write_rows(
    p_table_id bigint, p_version bigint, p_adds dl_added_file[], p_removes json, p_txns json,
    p_other json, p_may_have_vectors boolean
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_written bigint;
    v_path text;
BEGIN
    IF p_removes IS NOT NULL THEN
        WITH gone AS MATERIALIZED (
            SELECT r.*, (
                SELECT a.ctid FROM dl_active_files AS a
                WHERE a.table_id = p_table_id AND a.path_key = r.path_key
                  AND a.dv_key = r.dv_key) AS place
            FROM json_to_recordset(p_removes) AS r (
                path_key bytea, dv_key bytea, path text, deletion_timestamp bigint,
                data_change boolean, deletion_vector text, action text)
        ), moved AS (
            DELETE FROM dl_active_files AS a USING gone AS g
            -- By table too: in a partitioned table a ctid is not unique.
            WHERE a.table_id = p_table_id AND a.ctid = g.place
            RETURNING a.*, g.deletion_timestamp, g.data_change AS remove_data_change, g.action
        ), kept AS (
            INSERT INTO dl_dead_files
            SELECT table_id, version, path_key, dv_key, partition_key, size_bytes,
                   modification_time, num_records, base_row_id, default_row_commit_version,
                   data_change, min_keys, max_keys, null_counts, path, partition_values, stats,
                   tags, deletion_vector, clustering_provider, extra,
                   p_version, deletion_timestamp, remove_data_change, action
            FROM moved
        )
        INSERT INTO dl_dead_files (table_id, path_key, dv_key, path, deletion_vector,
                                   removed_version, deletion_timestamp, remove_data_change,
                                   remove_action)
        SELECT p_table_id, g.path_key, g.dv_key, g.path, g.deletion_vector,
               p_version, g.deletion_timestamp, g.data_change, g.action
        FROM gone AS g
        WHERE g.place IS NULL;
    END IF;

    IF p_adds IS NOT NULL THEN
        INSERT INTO dl_active_files
        SELECT p_table_id, p_version, r.*
        FROM unnest(p_adds) AS r
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS v_written = ROW_COUNT;
        IF v_written < cardinality(p_adds) THEN
            PERFORM dl_restate_files(p_table_id, p_version, p_adds);
        END IF;
        IF p_may_have_vectors THEN
            SELECT r.path INTO v_path
            FROM unnest(p_adds) AS r
            CROSS JOIN LATERAL (
                SELECT 1 FROM dl_active_files AS a
                WHERE a.table_id = p_table_id AND a.path_key = r.path_key
                  AND a.dv_key <> r.dv_key LIMIT 1
            ) AS other
            LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION USING ERRCODE = 'DL001', MESSAGE = v_path;
            END IF;
        END IF;
    END IF;

    IF p_txns IS NOT NULL THEN
        INSERT INTO dl_txn_actions
            (table_id, version, app_key, app_id, txn_version, last_updated)
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_txns) AS r (
            app_key bytea, app_id text, txn_version bigint, last_updated bigint);
    END IF;

    IF p_other IS NOT NULL THEN
        PERFORM dl_write_other(p_table_id, p_version, p_other);
    END IF;
END $$;
COMMENT ON FUNCTION dl_write_rows IS 'The rows of a commit''s actions';

CREATE FUNCTION dl_restate_files(p_table_id bigint, p_version bigint, p_adds dl_added_file[])
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_path text;
BEGIN
    SELECT min(r.path) INTO v_path
    FROM unnest(p_adds) AS r
    GROUP BY r.path_key, r.dv_key
    HAVING count(*) > 1
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'DL002', MESSAGE = v_path;
    END IF;

    WITH moved AS (
        DELETE FROM dl_active_files AS a
        USING unnest(p_adds) AS r
        WHERE a.table_id = p_table_id AND a.path_key = r.path_key AND a.dv_key = r.dv_key
          AND a.version < p_version
        RETURNING a.*
    )
    INSERT INTO dl_dead_files
    SELECT table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
           num_records, base_row_id, default_row_commit_version, data_change, min_keys,
           max_keys, null_counts, path, partition_values, stats, tags, deletion_vector,
           clustering_provider, extra, p_version, NULL, NULL, NULL
    FROM moved;

    INSERT INTO dl_active_files
    SELECT p_table_id, p_version, r.*
    FROM unnest(p_adds) AS r
    ON CONFLICT (table_id, path_key, dv_key) DO NOTHING;
END $$;
COMMENT ON FUNCTION dl_restate_files IS
    'Adds of files that are live already: the old rows become history';

CREATE FUNCTION dl_write_other(p_table_id bigint, p_version bigint, p_other json)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Most commits have one of these or none: an INSERT of nothing costs as much as a look.
    IF p_other -> 'partitions' IS NOT NULL THEN
        INSERT INTO dl_partitions
        SELECT p_table_id, r.*
        FROM json_to_recordset(p_other -> 'partitions') AS r (
            partition_key bigint, partition_values text)
        ON CONFLICT DO NOTHING;
    END IF;

    IF p_other -> 'domains' IS NOT NULL THEN
        INSERT INTO dl_domain_metadata
            (table_id, version, domain_key, domain, configuration, removed)
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_other -> 'domains') AS r (
            domain_key bytea, domain text, configuration text, removed boolean);
    END IF;

    IF p_other -> 'cdc' IS NOT NULL THEN
        INSERT INTO dl_cdc_files
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_other -> 'cdc') AS r (
            path text, size_bytes bigint, partition_values text, action text);
    END IF;

    IF p_other -> 'metadata' IS NOT NULL THEN
        INSERT INTO dl_metadata_updates
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_other -> 'metadata') AS r (
            schema_json text, partition_columns text, table_properties text,
            stats_columns text, action text);
        UPDATE dl_table_heads SET metadata_version = p_version WHERE table_id = p_table_id;
        UPDATE dl_tables SET properties = p_other -> 'metadata' -> 0 ->> 'table_properties'
        WHERE table_id = p_table_id;
    END IF;

    IF p_other -> 'protocol' IS NOT NULL THEN
        INSERT INTO dl_protocol_updates
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_other -> 'protocol') AS r (
            min_reader_version integer, min_writer_version integer, action text);
        UPDATE dl_table_heads SET protocol_version = p_version WHERE table_id = p_table_id;
        UPDATE dl_tables
        SET protocol_min_reader = (p_other -> 'protocol' -> 0 ->> 'min_reader_version')::integer,
            protocol_min_writer = (p_other -> 'protocol' -> 0 ->> 'min_writer_version')::integer
        WHERE table_id = p_table_id;
    END IF;
END $$;
COMMENT ON FUNCTION dl_write_other IS 'Everything of a commit but its adds and removes';

CREATE FUNCTION dl_write_version(
    p_table_id bigint, p_version bigint, p_ict bigint, p_commit_id text,
    p_digest bytea, p_encoding text, p_body bytea,
    p_committer text, p_operation text, p_operation_params text, p_transaction_id text,
    p_is_blind_append boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dl_table_versions
    VALUES (p_table_id, p_version, p_commit_id, to_timestamp(p_ict / 1000.0), p_ict,
            p_committer, p_operation, p_operation_params, p_transaction_id, p_is_blind_append,
            p_digest, p_encoding, p_body);
    INSERT INTO dl_mirror_status (table_id, version, status, digest)
    VALUES (p_table_id, p_version, 'PENDING', p_digest);
END $$;
COMMENT ON FUNCTION dl_write_version IS 'The version and its mirror status';

CREATE FUNCTION dl_seen_txn(p_table_id bigint, p_txns json)
RETURNS bigint LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT seen.version
    FROM json_to_recordset(p_txns) AS r (app_key bytea, txn_version bigint)
    CROSS JOIN LATERAL (
        SELECT t.version, t.txn_version FROM dl_txn_actions AS t
        WHERE t.table_id = p_table_id AND t.app_key = r.app_key
        ORDER BY t.version DESC LIMIT 1
    ) AS seen
    WHERE seen.txn_version >= r.txn_version
    ORDER BY seen.version DESC LIMIT 1
$$;
COMMENT ON FUNCTION dl_seen_txn IS
    'The version that holds one of these transactions, or a later one, already';

CREATE FUNCTION dl_seen(p_table_id bigint, p_commit_id text, p_is_retry boolean, p_txns json)
RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_version bigint;
    v_ict bigint;
BEGIN
    PERFORM 1 FROM dl_table_heads AS h WHERE h.table_id = p_table_id FOR UPDATE;
    IF p_is_retry THEN
        SELECT v.version, v.in_commit_timestamp INTO v_version, v_ict
        FROM dl_table_versions AS v
        WHERE v.table_id = p_table_id AND v.commit_id = p_commit_id;
        IF FOUND THEN
            RETURN 'COMMITTED ' || v_version || ' ' || v_ict;
        END IF;
    END IF;
    RETURN 'TXN_SEEN ' || dl_seen_txn(p_table_id, p_txns);
END $$;
COMMENT ON FUNCTION dl_seen IS
    'What dl_commit answers to a commit, or a transaction in it, that is there already; else null';

-- The answer is one text, because a set of rows costs more than it tells. Statements that most
-- commits don't need are in functions of their own: the plain append pays for nothing else.
CREATE FUNCTION dl_commit(
    p_table_id bigint, p_commit_id text, p_is_retry boolean, p_lock_timeout text,
    p_expected bigint, p_metadata_version bigint, p_protocol_version bigint,
    p_body_start bytea, p_body_middle bytea, p_body_end bytea,
    p_committer text, p_operation text, p_operation_params text, p_transaction_id text,
    p_is_blind_append boolean, p_adds dl_added_file[], p_removes json, p_txns json,
    p_other json, p_may_have_vectors boolean
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_file dl_added_file;
    v_head dl_table_heads;
    v_version bigint;
    v_ict bigint;
    v_body bytea;
    v_digest bytea;
    v_seen text;
BEGIN
    -- Null where the connection itself carries the limit.
    IF p_lock_timeout IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_lock_timeout, true);
    END IF;
    IF p_is_retry OR p_txns IS NOT NULL THEN
        v_seen := dl_seen(p_table_id, p_commit_id, p_is_retry, p_txns);
        IF v_seen IS NOT NULL THEN
            RETURN v_seen;
        END IF;
    END IF;

    -- Lock, check and advance in one statement.
    UPDATE dl_table_heads AS h
    SET current_version = h.current_version + 1,
        last_ict = greatest(
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint, h.last_ict + 1)
    WHERE h.table_id = p_table_id
      AND (p_expected IS NULL OR h.current_version = p_expected)
      AND h.metadata_version = p_metadata_version
      AND h.protocol_version = p_protocol_version
    RETURNING h.current_version, h.last_ict INTO v_version, v_ict;
    IF NOT FOUND THEN
        SELECT * INTO v_head FROM dl_table_heads AS h WHERE h.table_id = p_table_id;
        IF NOT FOUND THEN
            RETURN 'NO_TABLE';
        END IF;
        RETURN format('VERSION_TAKEN %s %s %s %s', v_head.current_version, v_head.last_ict,
                      v_head.metadata_version, v_head.protocol_version);
    END IF;

    v_body := p_body_start || v_ict::text::bytea || p_body_middle || v_ict::text::bytea
              || p_body_end;
    v_digest := sha256(v_body);
    IF p_removes IS NULL AND p_txns IS NULL AND p_other IS NULL AND NOT p_may_have_vectors
       AND cardinality(p_adds) = 1 THEN
        v_file := p_adds[1];
        INSERT INTO dl_active_files
        VALUES (p_table_id, v_version, v_file.path_key, v_file.dv_key, v_file.partition_key,
                v_file.size_bytes, v_file.modification_time, v_file.num_records,
                v_file.base_row_id, v_file.default_row_commit_version, v_file.data_change,
                v_file.min_keys, v_file.max_keys, v_file.null_counts, v_file.path,
                v_file.partition_values, v_file.stats, v_file.tags, v_file.deletion_vector,
                v_file.clustering_provider, v_file.extra)
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            PERFORM dl_restate_files(p_table_id, v_version, p_adds);
        END IF;
    ELSE
        PERFORM dl_write_rows(p_table_id, v_version, p_adds, p_removes, p_txns, p_other,
                              p_may_have_vectors);
    END IF;
    INSERT INTO dl_table_versions
    VALUES (p_table_id, v_version, p_commit_id, to_timestamp(v_ict / 1000.0), v_ict,
            p_committer, p_operation, p_operation_params, p_transaction_id, p_is_blind_append,
            v_digest, 'raw', v_body);
    INSERT INTO dl_mirror_status (table_id, version, status, digest)
    VALUES (p_table_id, v_version, 'PENDING', v_digest);
    RETURN 'COMMITTED ' || v_version || ' ' || v_ict;
END $$;
COMMENT ON FUNCTION dl_commit IS
    'Commit one version. Answers COMMITTED version time, TXN_SEEN version, NO_TABLE, or VERSION_TAKEN and the head: version time metadata_version protocol_version';
