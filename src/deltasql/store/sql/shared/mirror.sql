-- name: lease_take
-- One that ends later than any lease can was given by a clock that has gone back since: nobody
-- waits until that clock has caught up.
INSERT INTO dl_mirror_leases (table_id, work, holder, token, expires_at)
VALUES (:table_id, :work, :holder, 1, @in_ms(:milliseconds))
ON CONFLICT (table_id, work) DO UPDATE
SET holder = excluded.holder,
    token = dl_mirror_leases.token + 1,
    expires_at = excluded.expires_at
WHERE dl_mirror_leases.expires_at <= @now OR dl_mirror_leases.expires_at > @in_ms(:longest)
RETURNING token, mirrored_version, total_files, total_bytes, due_version, actions_since,
          checkpoint_actions;

-- name: lease_renew
UPDATE dl_mirror_leases
SET expires_at = @in_ms(:milliseconds)
WHERE table_id = :table_id AND work = :work AND token = :token AND expires_at > @now
RETURNING token;

-- name: lease_end
-- Long ago, not now: it is free at once, whatever the clock does next.
UPDATE dl_mirror_leases
SET expires_at = '1970-01-01 00:00:00'
WHERE table_id = :table_id AND work = :work AND token = :token
RETURNING token;

-- name: lease_keep_totals
UPDATE dl_mirror_leases
SET mirrored_version = :newest_version, total_files = :files, total_bytes = :bytes,
    due_version = :due_version, actions_since = :actions_since,
    expires_at = @in_ms(:milliseconds)
WHERE table_id = :table_id AND work = 'COMMITS' AND token = :token AND expires_at > @now
RETURNING token;

-- name: lease_note_checkpoint
-- In the row of the commit files, whose holder decides when the next one is due.
UPDATE dl_mirror_leases
SET checkpoint_actions = :actions
WHERE table_id = :table_id AND work = 'COMMITS'
RETURNING token;

-- name: mirror_pending
-- Twice `after`: a plan that was made while the table was small, and is kept, may read all versions
-- that the conditions on v alone let through.
SELECT s.version, v.in_commit_timestamp, s.digest, s.retry_count,
       @now_ms - @ms(s.last_attempt_at), t.mirror_paused, h.earliest_version,
       (SELECT count(*) FROM dl_dead_files AS d
        WHERE d.table_id = s.table_id AND d.removed_version = s.version
          AND d.version IS NOT NULL),
       (SELECT @part(summed_bytes) FROM dl_dead_files AS d
        WHERE d.table_id = s.table_id AND d.removed_version = s.version
          AND d.version IS NOT NULL),
       v.body_encoding, v.body
FROM dl_mirror_status AS s
JOIN dl_tables AS t ON t.table_id = s.table_id
LEFT JOIN dl_table_heads AS h ON h.table_id = s.table_id
LEFT JOIN dl_table_versions AS v
       ON v.table_id = s.table_id AND v.version = s.version AND v.version > :after
WHERE s.table_id = :table_id AND s.version > :after
  AND s.status <> 'SUCCESS' AND NOT s.json_written
ORDER BY s.version
LIMIT :most;

-- name: mirror_look
SELECT (SELECT json_written FROM dl_mirror_status
        WHERE table_id = :table_id AND version = :version),
       (SELECT count(*) FROM dl_mirror_leases
        WHERE table_id = :table_id AND work = 'COMMITS' AND expires_at > @now
          AND expires_at <= @in_ms(:longest));

-- name: mirror_due
SELECT version, retry_count, @ms(last_attempt_at)
FROM dl_mirror_status
WHERE table_id = :table_id AND status <> 'SUCCESS' AND json_written AND NOT checkpoint_written
ORDER BY version;

-- name: mirror_lost
SELECT 1
FROM dl_dead_files
WHERE table_id = :table_id AND removed_version > :version AND removed_version <= :later
  AND version <= :version
LIMIT 1;

-- name: mirror_mark_json
-- Only after lease_keep_totals, in its transaction. One that had its checkpoint, or was to have it,
-- before it was forgotten shall have it again.
UPDATE dl_mirror_status
SET json_written = true,
    status = CASE WHEN version > 0
                       AND (version % :interval = 0 OR version = :due OR checkpoint_written)
                  THEN 'PENDING' ELSE 'SUCCESS' END,
    checkpoint_written = false,
    error_message = NULL,
    retry_count = 0,
    last_attempt_at = @now,
    mirrored_at = @now
WHERE table_id = :table_id AND version BETWEEN :first_version AND :last_version
RETURNING version;

-- name: mirror_mark_checkpoint
UPDATE dl_mirror_status
SET checkpoint_written = true,
    status = 'SUCCESS',
    error_message = NULL,
    retry_count = 0,
    last_attempt_at = @now
WHERE table_id = :table_id AND version = :version
  AND EXISTS (
      SELECT 1 FROM dl_mirror_leases AS l
      WHERE l.table_id = :table_id AND l.work = :work AND l.token = :token AND l.expires_at > @now)
RETURNING version;

-- name: mirror_mark_failed
UPDATE dl_mirror_status
SET status = :status,
    error_message = :message,
    retry_count = retry_count + 1,
    last_attempt_at = @now
WHERE table_id = :table_id AND version = :version
  AND EXISTS (
      SELECT 1 FROM dl_mirror_leases AS l
      WHERE l.table_id = :table_id AND l.work = :work AND l.token = :token AND l.expires_at > @now)
RETURNING version;

-- name: mirror_forget
-- That it was to have a checkpoint is kept: mirror_mark_json asks.
UPDATE dl_mirror_status
SET status = 'PENDING', json_written = false,
    checkpoint_written = (checkpoint_written OR (json_written AND status <> 'SUCCESS')),
    retry_count = 0,
    last_attempt_at = NULL, mirrored_at = NULL, error_message = NULL
WHERE table_id = :table_id AND version BETWEEN :first AND :last
RETURNING version;

-- name: mirror_forget_checkpoint
UPDATE dl_mirror_status
SET status = 'PENDING', checkpoint_written = false, retry_count = 0, last_attempt_at = NULL
WHERE table_id = :table_id AND version = :version AND json_written
RETURNING version;

-- name: mirror_fill
INSERT INTO dl_mirror_status (table_id, version, status, digest)
SELECT v.table_id, v.version, 'PENDING', v.digest
FROM dl_table_versions AS v
LEFT JOIN dl_mirror_status AS s ON s.table_id = v.table_id AND s.version = v.version
WHERE v.table_id = :table_id AND s.version IS NULL
RETURNING version;

-- name: mirror_fill_all
INSERT INTO dl_mirror_status (table_id, version, status, digest)
SELECT v.table_id, v.version, 'PENDING', v.digest
FROM dl_table_versions AS v
JOIN dl_tables AS t ON t.table_id = v.table_id AND t.dropped_id = 0
LEFT JOIN dl_mirror_status AS s ON s.table_id = v.table_id AND s.version = v.version
WHERE s.version IS NULL
RETURNING version;

-- name: mirror_fill_new
-- Beyond what each table's mirror has: a look at the end of its history, however long that is. Not
-- a join: planners that expect many new versions would read every status for it.
INSERT INTO dl_mirror_status (table_id, version, status, digest)
SELECT v.table_id, v.version, 'PENDING', v.digest
FROM dl_tables AS t
JOIN dl_mirror_leases AS l ON l.table_id = t.table_id AND l.work = 'COMMITS'
JOIN dl_table_versions AS v ON v.table_id = t.table_id AND v.version > l.mirrored_version
WHERE t.dropped_id = 0
  AND (SELECT s.version FROM dl_mirror_status AS s
       WHERE s.table_id = v.table_id AND s.version = v.version) IS NULL
RETURNING version;

-- name: mirror_status
SELECT version, status, json_written, checkpoint_written, error_message, retry_count,
       @ms(last_attempt_at), @ms(mirrored_at), digest
FROM dl_mirror_status
WHERE table_id = :table_id AND version BETWEEN :first AND :last
ORDER BY version;

-- name: mirror_reached
-- The newest version up to one that readers of the mirror have, and the newest they had at a time.
SELECT
    (SELECT s.version FROM dl_mirror_status AS s
     WHERE s.table_id = :table_id AND s.version <= :upto AND s.json_written
     ORDER BY s.version DESC LIMIT 1),
    (SELECT s.version FROM dl_mirror_status AS s
     WHERE s.table_id = :table_id AND s.version <= :upto AND s.json_written
       AND coalesce(@ms(s.mirrored_at), 0) <= :by
     ORDER BY s.version DESC LIMIT 1);

-- part: backlog_columns
SELECT t.table_id, t.name, t.location, t.mirror_paused, h.current_version,
       o.versions, o.first_version, v.in_commit_timestamp, f.retry_count,
       @ms(f.last_attempt_at), f.status, f.error_message,
       o.checkpoints, o.first_checkpoint, c.retry_count, @ms(c.last_attempt_at), t.properties,
       o.gap

-- part: backlog_open
-- Of the versions that are not done: those after the newest that readers see, those missing before
-- it, and those that only lack their checkpoint. To be grouped by table.
SELECT s.table_id,
       count(CASE WHEN NOT s.json_written
                       AND s.version > CASE WHEN n.json_written THEN n.version ELSE -1 END
                  THEN 1 END) AS versions,
       min(CASE WHEN NOT s.json_written
                     AND s.version > CASE WHEN n.json_written THEN n.version ELSE -1 END
                THEN s.version END) AS first_version,
       count(CASE WHEN NOT s.json_written AND s.version <= n.version AND n.json_written
                  THEN 1 END) AS gap,
       min(CASE WHEN NOT s.json_written THEN s.version END) AS first_missing,
       count(CASE WHEN s.json_written THEN 1 END) AS checkpoints,
       min(CASE WHEN s.json_written THEN s.version END) AS first_checkpoint
FROM dl_mirror_status AS s
LEFT JOIN dl_mirror_leases AS l ON l.table_id = s.table_id AND l.work = 'COMMITS'
LEFT JOIN dl_mirror_status AS n ON n.table_id = l.table_id AND n.version = l.mirrored_version
WHERE s.status <> 'SUCCESS'

-- part: backlog_firsts
LEFT JOIN dl_table_versions AS v ON v.table_id = t.table_id AND v.version = o.first_version
LEFT JOIN dl_mirror_status AS f ON f.table_id = t.table_id AND f.version = o.first_missing
LEFT JOIN dl_mirror_status AS c ON c.table_id = t.table_id AND c.version = o.first_checkpoint

-- name: mirror_backlog
@part(backlog_columns)
FROM dl_tables AS t
JOIN dl_table_heads AS h ON h.table_id = t.table_id
LEFT JOIN (
@part(backlog_open)
GROUP BY s.table_id
) AS o ON o.table_id = t.table_id
@part(backlog_firsts)
WHERE t.dropped_id = 0
ORDER BY t.table_id;

-- name: mirror_open_backlog
-- From the few versions that are not done: what it costs does not depend on the tables there are.
@part(backlog_columns)
FROM (
@part(backlog_open)
GROUP BY s.table_id
) AS o
JOIN dl_tables AS t ON t.table_id = o.table_id
JOIN dl_table_heads AS h ON h.table_id = o.table_id
@part(backlog_firsts)
WHERE t.dropped_id = 0
ORDER BY t.table_id;

-- name: mirror_backlog_of
@part(backlog_columns)
FROM dl_tables AS t
JOIN dl_table_heads AS h ON h.table_id = t.table_id
LEFT JOIN (
@part(backlog_open)
AND s.table_id = :table_id
GROUP BY s.table_id
) AS o ON o.table_id = t.table_id
@part(backlog_firsts)
WHERE t.table_id = :table_id AND t.dropped_id = 0;

-- name: mirror_heads
-- Tables that were committed to since, and all that there are from -1 on.
SELECT h.table_id, h.current_version, h.last_ict
FROM dl_table_heads AS h
WHERE h.last_ict > :since;

-- name: mirror_gaps
SELECT min(version), max(version)
FROM (
    SELECT version, version - row_number() OVER (ORDER BY version) AS row_start
    FROM dl_mirror_status
    WHERE table_id = :table_id AND status <> 'SUCCESS' AND NOT json_written
) AS missing
GROUP BY row_start
ORDER BY 1;

-- name: mirror_pause
UPDATE dl_tables SET mirror_paused = :paused
WHERE table_id = :table_id AND dropped_id = 0
RETURNING table_id;

-- name: totals_at
SELECT count(*), @part(summed_bytes)
FROM (
    SELECT size_bytes FROM dl_active_files
    WHERE table_id = :table_id AND version <= :version
    UNION ALL
    SELECT size_bytes FROM dl_dead_files
    WHERE table_id = :table_id AND version <= :version AND removed_version > :version
) AS live;

-- name: live_keys_at
SELECT version, path_key, dv_key
FROM dl_active_files
WHERE table_id = {table_id} AND version <= {version}
UNION ALL
SELECT version, path_key, dv_key
FROM dl_dead_files
WHERE table_id = {table_id} AND version <= {version} AND removed_version > {version};

-- name: tombstones_at
-- The newest remove of each file that is not live, or live again, at the version.
SELECT d.remove_action AS action
FROM dl_dead_files AS d
WHERE d.table_id = {table_id} AND d.removed_version <= {version}
  AND d.remove_action IS NOT NULL AND d.deletion_timestamp > {newer_than}
  AND NOT EXISTS (
      SELECT 1 FROM dl_dead_files AS n
      WHERE n.table_id = d.table_id AND n.path_key = d.path_key AND n.dv_key = d.dv_key
        AND n.removed_version > d.removed_version
        AND (n.removed_version <= {version} OR n.version <= {version}))
  AND NOT EXISTS (
      SELECT 1 FROM dl_active_files AS a
      WHERE a.table_id = d.table_id AND a.path_key = d.path_key AND a.dv_key = d.dv_key
        AND a.version <= {version});

-- name: clock
SELECT @now_ms;
