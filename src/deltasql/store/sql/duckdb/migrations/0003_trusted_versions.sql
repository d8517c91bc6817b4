-- What checks begin with. Tables that are there already have none: the first check replays them from
-- their first version, and takes what an adopted table began with as it finds it.

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
