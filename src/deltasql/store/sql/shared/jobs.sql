-- What upkeep in the background does: see store/jobs.

-- name: job_queue
-- One of a kind at a time for each table.
INSERT INTO dl_maintenance_jobs (job_id, table_id, work, reason, queued_at)
SELECT :job_id, :table_id, :work, :reason, @now
WHERE NOT EXISTS (
    SELECT 1 FROM dl_maintenance_jobs
    WHERE table_id = :table_id AND work = :work AND ended_at IS NULL)
RETURNING job_id;

-- name: job_claim
-- Asked twice: whoever waited for another's claim sees that it is taken.
UPDATE dl_maintenance_jobs
SET holder = :holder, started_at = @now, expires_at = @in_ms(:milliseconds)
WHERE job_id = (
    SELECT job_id FROM dl_maintenance_jobs
    WHERE ended_at IS NULL AND (expires_at IS NULL OR expires_at < @now)
    ORDER BY queued_at, job_id
    LIMIT 1)
  AND ended_at IS NULL AND (expires_at IS NULL OR expires_at < @now)
RETURNING job_id;

-- name: job_end
UPDATE dl_maintenance_jobs
SET ended_at = @now, size_bytes = :size_bytes, outcome = :outcome
WHERE job_id = :job_id AND holder = :holder AND ended_at IS NULL
RETURNING job_id;

-- name: jobs_forget
DELETE FROM dl_maintenance_jobs WHERE ended_at < @in_ms(:before)
RETURNING job_id;

-- name: jobs_bytes
SELECT coalesce(sum(size_bytes), 0) FROM dl_maintenance_jobs WHERE ended_at >= @in_ms(:since);

-- name: jobs_all
SELECT j.job_id, j.table_id, t.name, j.work, j.reason, @ms(j.queued_at), j.holder,
       @ms(j.started_at), @ms(j.ended_at), j.size_bytes, j.outcome
FROM dl_maintenance_jobs AS j
LEFT JOIN dl_tables AS t ON t.table_id = j.table_id
ORDER BY j.queued_at DESC, j.job_id;
