-- Who is at work, which versions are held, what vacuum deletes, and files at any version.

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

CREATE FUNCTION active_files_at(p_table_id bigint, p_version bigint)
RETURNS TABLE (path text, size_bytes bigint, partition_values text, stats text,
               modification_time bigint, deletion_vector text, version bigint)
LANGUAGE sql STABLE AS $$
    SELECT f.path, f.size_bytes, f.partition_values, f.stats, f.modification_time,
           f.deletion_vector, f.version
    FROM dl_active_files AS f
    WHERE f.table_id = p_table_id AND f.version <= p_version
    UNION ALL
    SELECT f.path, f.size_bytes, f.partition_values, f.stats, f.modification_time,
           f.deletion_vector, f.version
    FROM dl_dead_files AS f
    WHERE f.version IS NOT NULL
      AND int8range((f.table_id << 40) | f.version, (f.table_id << 40) | f.removed_version)
          @> ((p_table_id << 40) | p_version)
      AND f.table_id = p_table_id
$$;
COMMENT ON FUNCTION active_files_at IS 'The files that are live at a version of a table';
