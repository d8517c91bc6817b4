-- Who is at work, what is held, and what vacuum may delete: see store/upkeep.

-- name: session_begin
INSERT INTO dl_sessions
    (session_id, kind, host, pid, committer, started_at, heartbeat_at, writing_since)
VALUES (:session_id, :kind, :host, :pid, :committer, @in_ms(:started), @now, @in_ms(:writing))
ON CONFLICT (session_id) DO UPDATE
SET heartbeat_at = excluded.heartbeat_at, writing_since = excluded.writing_since
RETURNING session_id;

-- name: session_beat
-- Whoever is too late was taken for dead, whether anybody has swept the row or not.
UPDATE dl_sessions SET heartbeat_at = @now, writing_since = NULL
WHERE session_id = :session_id AND heartbeat_at >= @in_ms(:late)
RETURNING session_id;

-- name: session_beat_writing
UPDATE dl_sessions SET heartbeat_at = @now, writing_since = @in_ms(:writing)
WHERE session_id = :session_id AND heartbeat_at >= @in_ms(:late)
RETURNING session_id;

-- name: session_end
DELETE FROM dl_sessions WHERE session_id = :session_id
RETURNING session_id;

-- name: workers_alive
SELECT session_id FROM dl_sessions
WHERE kind = :kind AND heartbeat_at >= @in_ms(:silent)
LIMIT 1;

-- name: sessions_sweep
DELETE FROM dl_sessions WHERE heartbeat_at < @in_ms(:silent)
RETURNING session_id;

-- name: sessions_all
SELECT session_id, kind, host, pid, committer, @ms(started_at), @ms(heartbeat_at),
       @ms(writing_since), heartbeat_at >= @in_ms(:silent)
FROM dl_sessions
ORDER BY started_at, session_id;

-- name: writers_since
-- Who has no write under way may have begun one since it was last heard of.
SELECT @now_ms,
       (SELECT min(coalesce(@ms(writing_since), @ms(heartbeat_at)))
        FROM dl_sessions WHERE heartbeat_at >= @in_ms(:silent)),
       (SELECT min(@ms(writing_since))
        FROM dl_sessions WHERE heartbeat_at >= @in_ms(:silent));

-- name: pin_add
INSERT INTO dl_pins (pin_id, table_id, version, reason, session_id, created_at, expires_at)
VALUES (:pin_id, :table_id, :version, :reason, :session_id, @now, @in_ms(:milliseconds))
ON CONFLICT (pin_id) DO UPDATE SET expires_at = excluded.expires_at
RETURNING pin_id;

-- name: pin_renew
-- One that expired held nothing meanwhile: it can't come back.
UPDATE dl_pins SET expires_at = @in_ms(:milliseconds)
WHERE pin_id = :pin_id AND expires_at >= @now
RETURNING pin_id;

-- name: pin_remove
DELETE FROM dl_pins WHERE pin_id = :pin_id
RETURNING pin_id;

-- name: pins_sweep
DELETE FROM dl_pins WHERE expires_at < @now
RETURNING pin_id;

-- name: pins_all
SELECT p.pin_id, p.table_id, t.name, p.version, p.reason, p.session_id, @ms(p.created_at),
       @ms(p.expires_at)
FROM dl_pins AS p
LEFT JOIN dl_tables AS t ON t.table_id = p.table_id
WHERE p.expires_at >= @now
ORDER BY p.created_at, p.pin_id;

-- name: pins_of
SELECT version, reason FROM dl_pins WHERE table_id = :table_id AND expires_at >= @now;

-- name: vacuum_begin
INSERT INTO dl_vacuums
    (vacuum_id, table_id, committer, host, retention_ms, kept_since, started_at)
VALUES (:vacuum_id, :table_id, :committer, :host, :retention_ms, :kept_since, @now)
RETURNING vacuum_id;

-- name: vacuum_end
UPDATE dl_vacuums SET ended_at = @now WHERE vacuum_id = :vacuum_id
RETURNING vacuum_id;

-- name: vacuum_mark
UPDATE dl_vacuum_files SET deleted_at = @now
WHERE vacuum_id = :vacuum_id AND batch = :batch AND deleted_at IS NULL
RETURNING vacuum_id;

-- name: vacuum_spare
DELETE FROM dl_vacuum_files
WHERE vacuum_id = :vacuum_id AND path_key = :path_key AND deleted_at IS NULL
  AND journaled_at <= @in_ms(:since)
RETURNING vacuum_id;

-- name: vacuum_again
UPDATE dl_vacuum_files SET journaled_at = @now
WHERE vacuum_id = :vacuum_id AND batch = :batch AND deleted_at IS NULL
RETURNING vacuum_id;

-- name: vacuum_pending
SELECT vacuum_id, batch, path, kind, size_bytes
FROM dl_vacuum_files
WHERE table_id = :table_id AND deleted_at IS NULL
ORDER BY vacuum_id, batch;

-- name: vacuum_dead
-- Paths whose every row ended with the horizon or before it, and that were not deleted since.
SELECT f.path, f.version, f.removed_version, f.size_bytes
FROM dl_dead_files AS f
LEFT JOIN (
    SELECT DISTINCT path_key FROM dl_dead_files
    WHERE table_id = {table_id} AND removed_version > {horizon}
) AS kept ON kept.path_key = f.path_key
WHERE f.table_id = {table_id} AND f.removed_version <= {horizon} AND kept.path_key IS NULL
  AND NOT EXISTS (
      SELECT 1 FROM dl_active_files AS a
      WHERE a.table_id = {table_id} AND a.path_key = f.path_key)
  AND NOT EXISTS (
      SELECT 1 FROM dl_vacuum_files AS j
      WHERE j.table_id = {table_id} AND j.path_key = f.path_key
        AND j.at_version >= f.removed_version)
ORDER BY f.path_key;

-- name: vacuum_vectors
SELECT deletion_vector, version, CAST(NULL AS bigint) AS removed_version
FROM dl_active_files
WHERE table_id = {table_id} AND deletion_vector IS NOT NULL
UNION ALL
SELECT deletion_vector, version, removed_version
FROM dl_dead_files
WHERE table_id = {table_id} AND deletion_vector IS NOT NULL;

-- name: vacuum_changes
SELECT path, version, size_bytes FROM dl_cdc_files WHERE table_id = {table_id};

-- name: vacuum_lives
-- Every file that any version names, and from which version up to which; changes are read with
-- their own version alone.
SELECT path, deletion_vector, version, CAST(NULL AS bigint) AS removed_version, 0 AS is_change
FROM dl_active_files
WHERE table_id = {table_id}
UNION ALL
SELECT path, deletion_vector, version, removed_version, 0
FROM dl_dead_files
WHERE table_id = {table_id}
UNION ALL
SELECT path, NULL, version, version + 1, 1
FROM dl_cdc_files
WHERE table_id = {table_id};

-- name: vacuum_encoded
SELECT path FROM dl_active_files WHERE table_id = {table_id} AND path LIKE '%!%%' ESCAPE '!'
UNION ALL
SELECT path FROM dl_dead_files WHERE table_id = {table_id} AND path LIKE '%!%%' ESCAPE '!'
UNION ALL
SELECT path FROM dl_cdc_files WHERE table_id = {table_id} AND path LIKE '%!%%' ESCAPE '!';

-- name: vacuum_deleted
SELECT path FROM dl_vacuum_files
WHERE table_id = {table_id} AND kind IN ('VECTOR', 'CHANGE') AND deleted_at IS NOT NULL;

-- name: elsewhere_named
-- Files that tables name by absolute paths: they may lie at the place of any table. A path that
-- begins with a slash is absolute in the file system, or the bucket, of the table that names it.
SELECT f.path, f.deletion_vector, t.location
FROM (
    SELECT table_id, path, deletion_vector FROM dl_active_files
    WHERE path LIKE '%:%' OR path LIKE '/%' OR deletion_vector LIKE '%"storageType":"p"%'
    UNION ALL
    SELECT table_id, path, deletion_vector FROM dl_dead_files
    WHERE path LIKE '%:%' OR path LIKE '/%' OR deletion_vector LIKE '%"storageType":"p"%'
    UNION ALL
    SELECT table_id, path, NULL FROM dl_cdc_files WHERE path LIKE '%:%' OR path LIKE '/%'
) AS f
JOIN dl_tables AS t ON t.table_id = f.table_id
WHERE f.table_id <> {table_id};

-- name: absolute_of
SELECT path, deletion_vector FROM dl_active_files
WHERE table_id = :table_id
  AND (path LIKE '%:%' OR path LIKE '/%' OR deletion_vector LIKE '%"storageType":"p"%')
UNION ALL
SELECT path, deletion_vector FROM dl_dead_files
WHERE table_id = :table_id
  AND (path LIKE '%:%' OR path LIKE '/%' OR deletion_vector LIKE '%"storageType":"p"%')
UNION ALL
SELECT path, NULL FROM dl_cdc_files
WHERE table_id = :table_id AND (path LIKE '%:%' OR path LIKE '/%');

-- name: naming_tables
SELECT t.table_id, t.location, h.current_version, t.dropped_at IS NOT NULL
FROM dl_tables AS t
LEFT JOIN dl_table_heads AS h ON h.table_id = t.table_id
ORDER BY t.table_id;

-- name: holders
SELECT version, reason FROM dl_pins
WHERE table_id = :table_id AND expires_at >= @now
ORDER BY version, pin_id;

-- name: pin_alive
SELECT pin_id FROM dl_pins WHERE pin_id = :pin_id AND expires_at >= @now;

-- name: source_lock
-- A clone's source: see PostgreSQL, where several write at once.
SELECT table_id FROM dl_table_heads WHERE table_id = :table_id;

-- name: places_given_up
SELECT t.table_id, t.location
FROM dl_tables AS t
JOIN dl_places AS p ON p.table_id = t.table_id
WHERE p.place = '';

-- name: purge_pins
DELETE FROM dl_pins WHERE table_id = :table_id;

-- name: purge_vacuum_files
DELETE FROM dl_vacuum_files WHERE table_id = :table_id;

-- name: purge_vacuums
DELETE FROM dl_vacuums WHERE table_id = :table_id;

-- name: purge_expirations
DELETE FROM dl_expirations WHERE table_id = :table_id;

-- name: purge_maintenance_jobs
DELETE FROM dl_maintenance_jobs WHERE table_id = :table_id;
