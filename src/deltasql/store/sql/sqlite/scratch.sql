-- Differs: the scratch database of a check, which is SQLite whatever the log is in.

-- name: scratch_live
CREATE TABLE live (
    key BLOB PRIMARY KEY, print BLOB NOT NULL, content BLOB NOT NULL, stats BLOB NOT NULL,
    size INTEGER NOT NULL, version INTEGER NOT NULL, path TEXT NOT NULL
) WITHOUT ROWID;

-- name: scratch_dead
CREATE TABLE dead (
    key BLOB, removed_version INTEGER, print BLOB NOT NULL, path TEXT NOT NULL,
    PRIMARY KEY (key, removed_version)
) WITHOUT ROWID;

-- name: scratch_other
CREATE TABLE other (
    kind TEXT, version INTEGER, label TEXT, print BLOB NOT NULL,
    PRIMARY KEY (kind, version, label)
) WITHOUT ROWID;

-- name: scratch_add
INSERT OR REPLACE INTO live (key, print, content, stats, size, version, path)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: scratch_take
DELETE FROM live WHERE key = ? RETURNING print, content, stats, size, path;

-- name: scratch_end
INSERT OR REPLACE INTO dead (key, removed_version, print, path) VALUES (?, ?, ?, ?);

-- name: scratch_take_dead
DELETE FROM dead WHERE key = ? AND removed_version = ? RETURNING print;

-- name: scratch_note
INSERT OR REPLACE INTO other (kind, version, label, print) VALUES (?, ?, ?, ?);

-- name: scratch_take_other
DELETE FROM other WHERE kind = ? AND version = ? AND label = ? RETURNING print;

-- name: scratch_left_live
SELECT version, path FROM live;

-- name: scratch_count_live
SELECT count(*) FROM live;

-- name: scratch_left_sizes
SELECT path, size FROM live;

-- name: scratch_left_dead
SELECT removed_version, path FROM dead;

-- name: scratch_left_other
SELECT kind, version, label FROM other;
