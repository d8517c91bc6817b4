-- Who is at work, which versions are held, what vacuum deletes, and files at any version.

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

CREATE VIEW vw_file_lifetimes AS  -- Every file with the version that added it and the one that removed it
    SELECT table_id, version, NULL AS removed_version, path, size_bytes,
           partition_values, stats, modification_time, deletion_vector
    FROM dl_active_files
    UNION ALL
    SELECT table_id, version, removed_version, path, size_bytes, partition_values, stats,
           modification_time, deletion_vector
    FROM dl_dead_files
    WHERE version IS NOT NULL;
