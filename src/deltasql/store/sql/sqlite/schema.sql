-- The head schema of a deltasql log in SQLite: a public interface, made to be queried.
-- docs/schema.md explains it; migrations/ lead to exactly this.
--
-- Differs from PostgreSQL where SQLite has no such type: times are TEXT in UTC as SQLite's own
-- CURRENT_TIMESTAMP writes them, so that its date functions read them; arrays are JSON TEXT;
-- booleans are 0 or 1. There is no index on intervals: old versions are found by the version
-- that removed a file. Comments stand inside the statements, where sqlite_master keeps them.

CREATE TABLE dl_schema_migrations (  -- Migrations applied to this database, in order
    version     INTEGER PRIMARY KEY,  -- Number of the migration
    name        TEXT NOT NULL,  -- Name of the migration
    applied_at  TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP  -- When it was applied
) STRICT;

CREATE TABLE dl_tables (  -- The tables of the lake
    table_id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- Our own id; metaData.id may repeat and is only data
    name                 TEXT NOT NULL,  -- Name, by convention namespace.table
    location             TEXT NOT NULL,  -- Root of the data files and of the mirror
    protocol_min_reader  INTEGER NOT NULL,  -- minReaderVersion of the current protocol
    protocol_min_writer  INTEGER NOT NULL,  -- minWriterVersion of the current protocol
    properties           TEXT NOT NULL,  -- Current metaData.configuration, JSON
    created_at           TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,  -- When the table entered the lake
    dropped_at           TEXT,  -- When it was dropped; null while it lives
    dropped_id           INTEGER NOT NULL DEFAULT 0,  -- 0 while it lives, then its table_id, so that the name is free again
    read_only_reason     TEXT,  -- Why deltasql may not write it; null if it may
    mirror_paused        INTEGER NOT NULL DEFAULT 0 CHECK (mirror_paused IN (0, 1)),  -- Whether mirroring is paused
    UNIQUE (name, dropped_id)
) STRICT;

CREATE TABLE dl_places (  -- Which table lies where; no two live in one place, nor one within another
    table_id  INTEGER PRIMARY KEY,  -- The table
    place     TEXT NOT NULL  -- Its location in one spelling for all, with a slash at the end; empty once another table has it
) STRICT;

CREATE TABLE dl_table_sources (  -- Places outside of its own from which a table may read
    table_id  INTEGER NOT NULL,  -- The table
    source    TEXT NOT NULL,  -- A place in the spelling of dl_places, with a slash at the end; empty for anywhere
    PRIMARY KEY (table_id, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_purges (  -- Purges that have begun and not ended
    table_id    INTEGER PRIMARY KEY,  -- The dropped table
    started_at  TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP  -- When it began
) STRICT;

CREATE TABLE dl_table_heads (  -- The newest version of each table
    table_id          INTEGER PRIMARY KEY,  -- The table
    current_version   INTEGER NOT NULL CHECK (current_version >= 0),  -- Newest committed version
    last_ict          INTEGER NOT NULL,  -- In-commit timestamp of the newest version, epoch milliseconds
    earliest_version  INTEGER NOT NULL DEFAULT 0,  -- Oldest version that can be read
    metadata_version  INTEGER NOT NULL,  -- Version of the current metaData
    protocol_version  INTEGER NOT NULL  -- Version of the current protocol
) STRICT;

CREATE TABLE dl_table_versions (  -- Every committed version with the exact bytes of its commit file
    table_id             INTEGER NOT NULL,  -- The table
    version              INTEGER NOT NULL,  -- Version, contiguous
    commit_id            TEXT NOT NULL,  -- Made by the client; makes a retry safe
    committed_at         TEXT NOT NULL,  -- The in-commit timestamp as a time
    in_commit_timestamp  INTEGER NOT NULL,  -- Epoch milliseconds, strictly growing
    committer            TEXT,  -- Who committed
    operation            TEXT,  -- What was done, e.g. WRITE
    operation_params     TEXT,  -- Parameters of the operation, JSON
    transaction_id       TEXT,  -- Shared by the versions of a multi-table transaction
    is_blind_append      INTEGER NOT NULL CHECK (is_blind_append IN (0, 1)),  -- Whether it added files and read none
    digest               BLOB NOT NULL,  -- SHA-256 of the commit file
    body_encoding        TEXT NOT NULL DEFAULT 'raw' CHECK (body_encoding IN ('raw', 'zstd')),  -- raw or zstd
    body                 BLOB NOT NULL,  -- The commit file
    PRIMARY KEY (table_id, version),
    UNIQUE (table_id, commit_id),
    UNIQUE (table_id, in_commit_timestamp)
) STRICT;

CREATE TABLE dl_active_files (  -- The live files of every table
    table_id                    INTEGER NOT NULL,  -- The table
    version                     INTEGER NOT NULL,  -- Version that added the file
    path_key                    BLOB NOT NULL,  -- First 16 bytes of the SHA-256 of path
    dv_key                      BLOB NOT NULL,  -- The same of the deletion vector's id; empty without one
    partition_key               INTEGER NOT NULL,  -- Hash of partition_values, see dl_partitions
    size_bytes                  INTEGER NOT NULL,  -- Size of the file
    modification_time           INTEGER NOT NULL,  -- Epoch milliseconds
    num_records                 INTEGER,  -- numRecords of stats
    base_row_id                 INTEGER,  -- First row id, with row tracking
    default_row_commit_version  INTEGER,  -- Default row commit version, with row tracking
    data_change                 INTEGER NOT NULL CHECK (data_change IN (0, 1)),  -- Whether the add changed the data
    min_keys                    TEXT,  -- Order-preserving lower bounds, JSON array by ordinal of dl_metadata_updates.stats_columns
    max_keys                    TEXT,  -- Order-preserving upper bounds, in the same order
    null_counts                 TEXT,  -- Null counts, in the same order
    path                        TEXT NOT NULL,  -- The path as the log has it (a URI)
    partition_values            TEXT NOT NULL,  -- JSON, verbatim
    stats                       TEXT,  -- JSON, verbatim
    tags                        TEXT,  -- JSON
    deletion_vector             TEXT,  -- JSON
    clustering_provider         TEXT,  -- Clustering implementation, if any
    extra                       TEXT,  -- Fields of the add that the spec does not know, JSON
    PRIMARY KEY (table_id, path_key, dv_key)
) STRICT;
-- Partitions of a table, and its files in the order they lie on disk.
CREATE INDEX dl_active_files_partition ON dl_active_files (table_id, partition_key);

CREATE TABLE dl_dead_files (  -- Files that were live once, and removes whose add is unknown
    table_id                    INTEGER NOT NULL,  -- The table
    version                     INTEGER,  -- Version that added the file; null if unknown
    path_key                    BLOB NOT NULL,  -- First 16 bytes of the SHA-256 of path
    dv_key                      BLOB NOT NULL,  -- The same of the deletion vector's id; empty without one
    partition_key               INTEGER,  -- Hash of partition_values, see dl_partitions
    size_bytes                  INTEGER,  -- Size of the file
    modification_time           INTEGER,  -- Epoch milliseconds
    num_records                 INTEGER,  -- numRecords of stats
    base_row_id                 INTEGER,  -- First row id, with row tracking
    default_row_commit_version  INTEGER,  -- Default row commit version, with row tracking
    data_change                 INTEGER CHECK (data_change IN (0, 1)),  -- Whether the add changed the data
    min_keys                    TEXT,  -- Order-preserving lower bounds
    max_keys                    TEXT,  -- Order-preserving upper bounds
    null_counts                 TEXT,  -- Null counts
    path                        TEXT NOT NULL,  -- The path as the log has it (a URI)
    partition_values            TEXT,  -- JSON, verbatim
    stats                       TEXT,  -- JSON, verbatim
    tags                        TEXT,  -- JSON
    deletion_vector             TEXT,  -- JSON
    clustering_provider         TEXT,  -- Clustering implementation, if any
    extra                       TEXT,  -- Fields of the add that the spec does not know, JSON
    removed_version             INTEGER NOT NULL,  -- Version that removed or restated the file
    deletion_timestamp          INTEGER,  -- deletionTimestamp of the remove, epoch milliseconds
    remove_data_change          INTEGER CHECK (remove_data_change IN (0, 1)),  -- dataChange of the remove
    remove_action               TEXT  -- The remove, JSON; null if a later add restated the file
) STRICT;
CREATE INDEX dl_dead_files_removed ON dl_dead_files (table_id, removed_version);

CREATE TABLE dl_partitions (  -- Partitions that files were ever added to
    table_id          INTEGER NOT NULL,  -- The table
    partition_key     INTEGER NOT NULL,  -- First 8 bytes of the SHA-256 of partition_values
    partition_values  TEXT NOT NULL,  -- JSON, canonical
    PRIMARY KEY (table_id, partition_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_partition_values (  -- What conditions on partition values are decided by
    table_id       INTEGER NOT NULL,  -- The table
    partition_key  INTEGER NOT NULL,  -- The partition
    name           TEXT NOT NULL,  -- Physical name of the partition column
    form           TEXT NOT NULL,  -- What the value looks like: null, number, day or other
    value          TEXT,  -- Its first 100 characters; null if there is none
    number         REAL,  -- The number that it is, if its form is number
    PRIMARY KEY (table_id, partition_key, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX dl_partition_values_value ON dl_partition_values (table_id, name, value);
CREATE INDEX dl_partition_values_number ON dl_partition_values (table_id, name, form, number);

-- Of numbers only whole ones: SQLite can not know others from text without functions of its own.
CREATE TRIGGER dl_partitions_index AFTER INSERT ON dl_partitions BEGIN
INSERT OR IGNORE INTO dl_partition_values
SELECT
    NEW.table_id, NEW.partition_key, item.key,
    CASE
        WHEN coalesce(item.value, '') = '' THEN 'null'
        WHEN length(item.value) < 19 AND (item.value GLOB '[0-9]*' AND item.value NOT GLOB '*[^0-9]*'
        OR item.value GLOB '-[0-9]*' AND substr(item.value, 2) NOT GLOB '*[^0-9]*')
        THEN 'number'
        WHEN item.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'
        OR item.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][ T]*'
        THEN 'day'
        ELSE 'other' END,
    substr(nullif(item.value, ''), 1, 100),
    CASE
        WHEN length(item.value) < 19 AND (item.value GLOB '[0-9]*' AND item.value NOT GLOB '*[^0-9]*'
        OR item.value GLOB '-[0-9]*' AND substr(item.value, 2) NOT GLOB '*[^0-9]*')
        THEN CAST(CAST(item.value AS INTEGER) AS REAL) END
FROM json_each(NEW.partition_values) AS item;
END;
CREATE TRIGGER dl_partitions_forget AFTER DELETE ON dl_partitions BEGIN
DELETE FROM dl_partition_values
WHERE table_id = OLD.table_id AND partition_key = OLD.partition_key;
END;

CREATE TABLE dl_metadata_updates (  -- Every metaData action
    table_id           INTEGER NOT NULL,  -- The table
    version            INTEGER NOT NULL,  -- Version that made it current
    schema_json        TEXT NOT NULL,  -- schemaString, verbatim
    partition_columns  TEXT NOT NULL,  -- Partition columns, JSON array
    table_properties   TEXT NOT NULL,  -- configuration, JSON
    stats_columns      TEXT NOT NULL,  -- Columns behind min_keys, max_keys and null_counts, JSON
    action             TEXT NOT NULL,  -- The whole action, JSON
    PRIMARY KEY (table_id, version)
) STRICT;

CREATE TABLE dl_protocol_updates (  -- Every protocol action
    table_id            INTEGER NOT NULL,  -- The table
    version             INTEGER NOT NULL,  -- Version that made it current
    min_reader_version  INTEGER NOT NULL,  -- minReaderVersion
    min_writer_version  INTEGER NOT NULL,  -- minWriterVersion
    action              TEXT NOT NULL,  -- The whole action, features included, JSON
    PRIMARY KEY (table_id, version)
) STRICT;

CREATE TABLE dl_txn_actions (  -- Every txn action: how far each application got
    table_id      INTEGER NOT NULL,  -- The table
    app_key       BLOB NOT NULL,  -- First 16 bytes of the SHA-256 of app_id
    version       INTEGER NOT NULL,  -- Version that holds the action
    app_id        TEXT NOT NULL,  -- appId
    txn_version   INTEGER NOT NULL,  -- The application's own version
    last_updated  INTEGER,  -- lastUpdated, epoch milliseconds
    PRIMARY KEY (table_id, app_key, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_domain_metadata (  -- Every domainMetadata action
    table_id       INTEGER NOT NULL,  -- The table
    domain_key     BLOB NOT NULL,  -- First 16 bytes of the SHA-256 of domain
    version        INTEGER NOT NULL,  -- Version that holds the action
    domain         TEXT NOT NULL,  -- Name of the domain
    configuration  TEXT NOT NULL,  -- Its configuration
    removed        INTEGER NOT NULL CHECK (removed IN (0, 1)),  -- Whether the action removes the domain
    PRIMARY KEY (table_id, domain_key, version)
) STRICT;

CREATE TABLE dl_cdc_files (  -- Every cdc action
    table_id          INTEGER NOT NULL,  -- The table
    version           INTEGER NOT NULL,  -- Version that holds the action
    path              TEXT NOT NULL,  -- The path as the log has it (a URI)
    size_bytes        INTEGER NOT NULL,  -- Size of the file
    partition_values  TEXT NOT NULL,  -- JSON
    action            TEXT NOT NULL  -- The whole action, JSON
) STRICT;
CREATE INDEX dl_cdc_files_version ON dl_cdc_files (table_id, version);

CREATE TABLE dl_mirror_status (  -- Whether each version has reached the object store
    table_id            INTEGER NOT NULL,  -- The table
    version             INTEGER NOT NULL,  -- The version
    status              TEXT NOT NULL CHECK (status IN ('PENDING', 'SUCCESS', 'FAILED')),  -- PENDING from the commit on, then SUCCESS or FAILED
    json_written        INTEGER NOT NULL DEFAULT 0 CHECK (json_written IN (0, 1)),  -- Whether the commit file is there
    checkpoint_written  INTEGER NOT NULL DEFAULT 0 CHECK (checkpoint_written IN (0, 1)),  -- Whether the checkpoint due at this version is there
    error_message       TEXT,  -- Why the last attempt failed
    retry_count         INTEGER NOT NULL DEFAULT 0,  -- Failed attempts so far
    last_attempt_at     TEXT,  -- When the last attempt began
    mirrored_at         TEXT,  -- When it succeeded
    digest              BLOB NOT NULL,  -- SHA-256 of the commit file
    PRIMARY KEY (table_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_mirror_leases (  -- Who mirrors a table now: one run per table and kind of work at a time
    table_id    INTEGER NOT NULL,  -- The table
    work        TEXT NOT NULL CHECK (work IN ('COMMITS', 'CHECKPOINTS')),  -- What is mirrored: commit files and checkpoints don't wait for each other
    holder      TEXT NOT NULL,  -- The worker
    token       INTEGER NOT NULL,  -- Fencing token, growing; every status write must show it
    expires_at  TEXT NOT NULL,  -- When the lease ends by the database's clock
    mirrored_version  INTEGER,  -- Newest version in the mirror
    total_files       INTEGER,  -- Live files at that version
    total_bytes       INTEGER,  -- Their size
    due_version       INTEGER,  -- Newest version at which a checkpoint fell due
    actions_since     INTEGER,  -- Actions in the commit files after it
    checkpoint_actions  INTEGER,  -- Actions in the newest checkpoint
    PRIMARY KEY (table_id, work)
) STRICT, WITHOUT ROWID;
-- The mirror looks for the few versions that are not done.
CREATE INDEX dl_mirror_status_open ON dl_mirror_status (table_id, version)
WHERE status <> 'SUCCESS';

CREATE TABLE dl_trusted_versions (  -- What was proven of a version, for checks to begin with
    table_id     INTEGER NOT NULL,  -- The table
    origin       TEXT NOT NULL CHECK (origin IN ('ADOPTED', 'CHECKED', 'CHECKPOINT')),  -- Why it is trusted: ADOPTED, CHECKED or CHECKPOINT
    version      INTEGER NOT NULL,  -- The version
    files        INTEGER NOT NULL,  -- Live files at that version
    size_bytes   INTEGER NOT NULL,  -- Their size
    digest       BLOB NOT NULL,  -- Sums of the hashes of the live files, their statistics and all other actions, in any order
    rows_digest  BLOB,  -- The same over every row up to that version; null where they were not looked at
    trusted_at   TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,  -- When it was written down
    PRIMARY KEY (table_id, origin)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_sessions (  -- Processes that write: one row each, made with their first write
    session_id     TEXT PRIMARY KEY,  -- Made by the process
    kind           TEXT NOT NULL,  -- What it is: python, spark or worker
    host           TEXT NOT NULL,  -- The machine
    pid            INTEGER NOT NULL,  -- The process there
    committer      TEXT,  -- As whom it commits
    started_at     TEXT NOT NULL,  -- When it began
    heartbeat_at   TEXT NOT NULL,  -- When it was last heard of
    writing_since  TEXT  -- Since when it may have files that are not committed; null if there was no write under way
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_pins (  -- Versions that are held open: vacuum keeps their files
    pin_id      TEXT PRIMARY KEY,  -- Made by the holder
    table_id    INTEGER NOT NULL,  -- The table
    version     INTEGER NOT NULL,  -- The version that is held
    reason      TEXT NOT NULL,  -- What for
    session_id  TEXT,  -- The holder's row in dl_sessions, if it has one
    created_at  TEXT NOT NULL,  -- Since when
    expires_at  TEXT NOT NULL  -- Until when, by the database's clock, unless it is renewed
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_vacuums (  -- Every vacuum that deleted, or set out to
    vacuum_id     TEXT PRIMARY KEY,  -- Made by the process that ran it
    table_id      INTEGER NOT NULL,  -- The table
    committer     TEXT,  -- Who ran it
    host          TEXT NOT NULL,  -- On which machine
    retention_ms  INTEGER NOT NULL,  -- The retention it kept to, in milliseconds
    kept_since    INTEGER NOT NULL,  -- What was current at this time or later stayed, epoch milliseconds
    started_at    TEXT NOT NULL,  -- When it began
    ended_at      TEXT  -- When it was done; null if it was cut off or is under way
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_vacuum_files (  -- What vacuum deletes: written down, then deleted, then marked
    vacuum_id     TEXT NOT NULL,  -- The vacuum
    batch         INTEGER NOT NULL,  -- What was written down together, counted from 0
    table_id      INTEGER NOT NULL,  -- The table
    path_key      BLOB NOT NULL,  -- First 16 bytes of the SHA-256 of path
    kind          TEXT NOT NULL CHECK (kind IN ('DEAD', 'VECTOR', 'CHANGE', 'ORPHAN')),  -- Why: DEAD data file, VECTOR file, CHANGE file, or ORPHAN that no version knew
    at_version    INTEGER NOT NULL,  -- The table's version when it was written down
    size_bytes    INTEGER,  -- Size of the file, if it was known
    journaled_at  TEXT NOT NULL,  -- When it was written down
    deleted_at    TEXT,  -- When it was gone; null if that is not known
    path          TEXT NOT NULL,  -- The path as the log has it, or would have it (a URI)
    PRIMARY KEY (vacuum_id, path_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX dl_vacuum_files_path ON dl_vacuum_files (table_id, path_key);

CREATE TABLE dl_optimize_bins (  -- Files that optimize is about to write together: a queue that processes share
    bin_id         TEXT PRIMARY KEY,  -- Made by the process that planned it; bins of one plan in their order
    table_id       INTEGER NOT NULL,  -- The table
    settings       TEXT NOT NULL,  -- What was asked for, a JSON object: whoever asks for the same takes part
    files          TEXT NOT NULL,  -- Paths as the log has them, a JSON array
    size_bytes     INTEGER NOT NULL,  -- Size of the files together
    created_at     TEXT NOT NULL,  -- When it was planned
    expires_at     TEXT NOT NULL,  -- Until when it holds its place, by the database's clock, unless somebody goes on with the queue
    claimed_by     TEXT,  -- Who works on it; null while nobody does
    claimed_until  TEXT  -- Until when, by the database's clock, unless that is renewed
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_moved_rows (  -- Where optimize put rows: what was live of the files that a version removed, one after the other by their paths, are the rows of those it added
    table_id    INTEGER NOT NULL,  -- The table
    version     INTEGER NOT NULL,  -- The version of optimize's commit
    row_counts  TEXT NOT NULL,  -- How many rows were live in each removed file, in the order of their paths, a JSON array
    created_at  TEXT NOT NULL,  -- When it was committed; kept for as long as removed files are
    PRIMARY KEY (table_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_row_orders (  -- Where optimize put rows that it sorted: what was live of the files that a version removed, one after the other by their paths, and the place that each row has in those it added
    table_id    INTEGER NOT NULL,  -- The table
    version     INTEGER NOT NULL,  -- The version of optimize's commit
    row_counts  TEXT NOT NULL,  -- How many rows were live in each removed file, in the order of their paths, a JSON array
    row_order   BLOB NOT NULL,  -- The place of each of these rows among those of the added files, one after the other by their paths: 32-bit numbers, little-endian, in zlib
    created_at  TEXT NOT NULL,  -- When it was committed; kept for as long as removed files are
    PRIMARY KEY (table_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_expirations (  -- Versions that left the history: all before the horizon
    table_id       INTEGER NOT NULL,  -- The table
    horizon        INTEGER NOT NULL,  -- The oldest version that can be read since
    first_version  INTEGER NOT NULL,  -- The oldest version that could be read before
    committer      TEXT,  -- Who ran it
    host           TEXT NOT NULL,  -- On which machine
    started_at     TEXT NOT NULL,  -- When the versions expired
    ended_at       TEXT,  -- When their rows were gone; null if it was cut off or is under way
    PRIMARY KEY (table_id, horizon)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_maintenance_jobs (  -- What upkeep in the background is to do, is doing and did
    job_id      TEXT NOT NULL,  -- Made by the worker that queued it
    table_id    INTEGER NOT NULL,  -- The table
    work        TEXT NOT NULL,  -- What is done: VACUUM, EXPIRE, ANALYZE or another kind that is registered
    reason      TEXT NOT NULL,  -- What made it due
    queued_at   TEXT NOT NULL,  -- When it was queued
    holder      TEXT,  -- The worker that does it, or did
    expires_at  TEXT,  -- Until when it is the holder's, by the database's clock
    started_at  TEXT,  -- When it was begun; null while it waits
    ended_at    TEXT,  -- When it was done, or given up
    size_bytes  INTEGER,  -- How many bytes it deleted or wrote
    outcome     TEXT,  -- What came of it; begins with failed: if it failed
    PRIMARY KEY (job_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE dl_namespaces (  -- Namespaces that were created or described; a table's name is enough for its own
    name        TEXT NOT NULL,  -- Words with dots between them
    properties  TEXT NOT NULL,  -- Its properties and its comment, JSON
    PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;

CREATE VIEW dl_add_files AS  -- Every add action
    SELECT table_id, version, path, size_bytes, partition_values, stats, data_change,
           modification_time, deletion_vector, dv_key
    FROM dl_active_files
    UNION ALL
    SELECT table_id, version, path, size_bytes, partition_values, stats, data_change,
           modification_time, deletion_vector, dv_key
    FROM dl_dead_files
    WHERE version IS NOT NULL;

CREATE VIEW dl_remove_files AS  -- Every remove action
    SELECT table_id, removed_version AS version, path, deletion_timestamp,
           remove_data_change AS data_change, deletion_vector, dv_key
    FROM dl_dead_files
    WHERE remove_action IS NOT NULL;

CREATE VIEW vw_latest_action_per_path AS  -- The newest add or remove of each file
    SELECT table_id, path, version, is_add, deletion_vector
    FROM (
        SELECT table_id, path, version, is_add, deletion_vector,
               row_number() OVER (
                   PARTITION BY table_id, path, dv_key ORDER BY version DESC, is_add DESC
               ) AS place
        FROM (
            SELECT table_id, path, version, 1 AS is_add, deletion_vector, dv_key
            FROM dl_add_files
            UNION ALL
            SELECT table_id, path, version, 0 AS is_add, deletion_vector, dv_key
            FROM dl_remove_files
        ) AS actions
    ) AS ranked
    WHERE place = 1;

CREATE VIEW vw_active_files AS  -- The live files of every table
    SELECT table_id, version, path, size_bytes, partition_values, stats, data_change,
           modification_time, deletion_vector
    FROM dl_active_files;

CREATE VIEW vw_file_lifetimes AS  -- Every file with the version that added it and the one that removed it
    SELECT table_id, version, NULL AS removed_version, path, size_bytes,
           partition_values, stats, modification_time, deletion_vector
    FROM dl_active_files
    UNION ALL
    SELECT table_id, version, removed_version, path, size_bytes, partition_values, stats,
           modification_time, deletion_vector
    FROM dl_dead_files
    WHERE version IS NOT NULL;
