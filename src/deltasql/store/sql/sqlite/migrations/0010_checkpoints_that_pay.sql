-- When the next checkpoint pays: what was mirrored since the last one, and how large that is.

-- Made anew, and not altered: SQLite would put the columns into the middle of a comment.
CREATE TABLE dl_mirror_leases_before AS SELECT * FROM dl_mirror_leases;

DROP TABLE dl_mirror_leases;

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

INSERT INTO dl_mirror_leases (table_id, work, holder, token, expires_at, mirrored_version, total_files, total_bytes)
SELECT table_id, work, holder, token, expires_at, mirrored_version, total_files, total_bytes
FROM dl_mirror_leases_before;

DROP TABLE dl_mirror_leases_before;
