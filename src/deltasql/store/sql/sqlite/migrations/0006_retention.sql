-- Versions that expire, and what upkeep in the background does.

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
