-- Which table holds which place: see store/claims.py.

-- name: places_claimed
-- Tables from before there were places have none: whoever asks works theirs out.
SELECT t.table_id, t.name, t.location, p.place,
       CASE WHEN t.dropped_id = 0 THEN 'live'
            WHEN t.dropped_at IS NULL THEN 'staged'
            ELSE 'dropped' END,
       t.read_only_reason IS NOT NULL, g.table_id IS NOT NULL
FROM dl_tables AS t
LEFT JOIN dl_places AS p ON p.table_id = t.table_id
LEFT JOIN dl_purges AS g ON g.table_id = t.table_id
WHERE t.table_id <> :table_id
  AND (p.place IS NULL
       OR p.place <> '' AND (
           substr(p.place, 1, length(CAST(:place AS text))) = CAST(:place AS text)
           OR substr(CAST(:place AS text), 1, length(p.place)) = p.place))
ORDER BY t.table_id;

-- name: place_held
SELECT place FROM dl_places WHERE table_id = :table_id;

-- name: places_missing
SELECT t.table_id, t.location
FROM dl_tables AS t
WHERE t.table_id <> :table_id
  AND NOT EXISTS (SELECT 1 FROM dl_places AS p WHERE p.table_id = t.table_id);

-- name: place_claim
INSERT INTO dl_places (table_id, place)
VALUES (:table_id, :place)
ON CONFLICT (table_id) DO NOTHING
RETURNING table_id;

-- name: place_take
-- By whoever creates a table: see PostgreSQL, where writers have no right to the rows.
INSERT INTO dl_places (table_id, place)
VALUES (:table_id, :place)
ON CONFLICT (table_id) DO NOTHING
RETURNING table_id;

-- name: place_give_up
UPDATE dl_places SET place = ''
WHERE place = :place AND table_id <> :table_id
RETURNING table_id;

-- name: tables_dropped
SELECT t.table_id, t.name, t.location, @ms(t.dropped_at), g.table_id IS NOT NULL,
       t.read_only_reason, p.place
FROM dl_tables AS t
LEFT JOIN dl_places AS p ON p.table_id = t.table_id
LEFT JOIN dl_purges AS g ON g.table_id = t.table_id
WHERE t.dropped_id <> 0 AND t.dropped_at IS NOT NULL
ORDER BY t.name, t.table_id;

-- name: head_restore
-- As it was when the table was dropped: nothing has been committed since.
INSERT INTO dl_table_heads
    (table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version)
SELECT v.table_id, v.version, v.in_commit_timestamp,
       (SELECT CASE WHEN e.horizon > o.version THEN e.horizon ELSE o.version END
        FROM (SELECT min(version) AS version FROM dl_table_versions
              WHERE table_id = :table_id) AS o,
             (SELECT coalesce(max(horizon), 0) AS horizon FROM dl_expirations
              WHERE table_id = :table_id) AS e),
       (SELECT max(version) FROM dl_metadata_updates WHERE table_id = :table_id),
       (SELECT max(version) FROM dl_protocol_updates WHERE table_id = :table_id)
FROM dl_table_versions AS v
WHERE v.table_id = :table_id AND v.version = (
    SELECT max(version) FROM dl_table_versions WHERE table_id = :table_id)
RETURNING table_id;

-- name: table_restore
UPDATE dl_tables
SET dropped_id = 0, dropped_at = NULL, name = :name
WHERE table_id = :table_id AND dropped_id <> 0 AND dropped_at IS NOT NULL
RETURNING table_id;

-- name: purges_begin
INSERT INTO dl_purges (table_id)
VALUES (:table_id)
ON CONFLICT (table_id) DO NOTHING
RETURNING table_id;

-- name: files_known
-- Everything that any version of a table names: data, deletion vectors, changes.
SELECT path, deletion_vector FROM dl_active_files WHERE table_id = {table_id}
UNION ALL
SELECT path, deletion_vector FROM dl_dead_files WHERE table_id = {table_id}
UNION ALL
SELECT path, NULL FROM dl_cdc_files WHERE table_id = {table_id};

-- name: sources_of
SELECT source FROM dl_table_sources WHERE table_id = :table_id ORDER BY source;

-- name: sources_at
-- By the place, and by the location for tables from before there were places.
SELECT DISTINCT s.source
FROM dl_table_sources AS s
JOIN dl_tables AS t ON t.table_id = s.table_id
LEFT JOIN dl_places AS p ON p.table_id = s.table_id
WHERE t.dropped_at IS NULL AND (p.place = :place OR p.place IS NULL AND t.location = :location)
ORDER BY s.source;

-- name: source_allow
INSERT INTO dl_table_sources (table_id, source)
VALUES (:table_id, :source)
ON CONFLICT (table_id, source) DO NOTHING
RETURNING table_id;

-- name: sources_inherit
-- A clone may read what its source may, and its source's own files.
INSERT INTO dl_table_sources (table_id, source)
SELECT :table_id, found.source
FROM (
    SELECT place AS source FROM dl_places WHERE table_id = :origin AND place <> ''
    UNION
    SELECT source FROM dl_table_sources WHERE table_id = :origin
) AS found
WHERE found.source IS NOT NULL
ON CONFLICT (table_id, source) DO NOTHING
RETURNING table_id;

-- name: sources_forget
DELETE FROM dl_table_sources WHERE table_id = :table_id
RETURNING table_id;
