-- name: table_by_name
SELECT table_id, name, location, read_only_reason, mirror_paused
FROM dl_tables
WHERE name = :name AND dropped_id = 0;

-- name: table_newest
SELECT t.table_id, t.name, t.location, t.read_only_reason, t.mirror_paused, h.current_version,
       h.last_ict
FROM dl_tables AS t
JOIN dl_table_heads AS h ON h.table_id = t.table_id
WHERE t.name = :name AND t.dropped_id = 0;

-- name: tables_all
SELECT table_id, name, location, read_only_reason, mirror_paused
FROM dl_tables
WHERE dropped_id = 0
ORDER BY name;

-- name: table_drop
UPDATE dl_tables
SET dropped_id = table_id, dropped_at = CURRENT_TIMESTAMP
WHERE table_id = :table_id AND dropped_id = 0
RETURNING table_id;

-- name: table_rename
UPDATE dl_tables
SET name = :name
WHERE table_id = :table_id AND dropped_id = 0
RETURNING table_id;
