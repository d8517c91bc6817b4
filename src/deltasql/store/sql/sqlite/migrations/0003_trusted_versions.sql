-- What checks begin with. Tables that are there already have none: the first check replays them from
-- their first version, and takes what an adopted table began with as it finds it.

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
