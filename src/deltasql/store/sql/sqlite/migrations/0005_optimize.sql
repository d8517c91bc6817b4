-- What optimize has to do, and where it put rows.

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
