-- Versions that expire, and what upkeep in the background does.

CREATE TABLE dl_expirations (
    table_id       BIGINT NOT NULL,
    horizon        BIGINT NOT NULL,
    first_version  BIGINT NOT NULL,
    committer      VARCHAR,
    host           VARCHAR NOT NULL,
    started_at     TIMESTAMPTZ NOT NULL,
    ended_at       TIMESTAMPTZ,
    PRIMARY KEY (table_id, horizon)
);
COMMENT ON TABLE dl_expirations IS 'Versions that left the history: all before the horizon';
COMMENT ON COLUMN dl_expirations.table_id IS 'The table';
COMMENT ON COLUMN dl_expirations.horizon IS 'The oldest version that can be read since';
COMMENT ON COLUMN dl_expirations.first_version IS 'The oldest version that could be read before';
COMMENT ON COLUMN dl_expirations.committer IS 'Who ran it';
COMMENT ON COLUMN dl_expirations.host IS 'On which machine';
COMMENT ON COLUMN dl_expirations.started_at IS 'When the versions expired';
COMMENT ON COLUMN dl_expirations.ended_at IS 'When their rows were gone; null if it was cut off or is under way';

CREATE TABLE dl_maintenance_jobs (
    job_id      VARCHAR NOT NULL,
    table_id    BIGINT NOT NULL,
    work        VARCHAR NOT NULL,
    reason      VARCHAR NOT NULL,
    queued_at   TIMESTAMPTZ NOT NULL,
    holder      VARCHAR,
    expires_at  TIMESTAMPTZ,
    started_at  TIMESTAMPTZ,
    ended_at    TIMESTAMPTZ,
    size_bytes  BIGINT,
    outcome     VARCHAR,
    PRIMARY KEY (job_id)
);
COMMENT ON TABLE dl_maintenance_jobs IS 'What upkeep in the background is to do, is doing and did';
COMMENT ON COLUMN dl_maintenance_jobs.job_id IS 'Made by the worker that queued it';
COMMENT ON COLUMN dl_maintenance_jobs.table_id IS 'The table';
COMMENT ON COLUMN dl_maintenance_jobs.work IS 'What is done: VACUUM, EXPIRE, ANALYZE or another kind that is registered';
COMMENT ON COLUMN dl_maintenance_jobs.reason IS 'What made it due';
COMMENT ON COLUMN dl_maintenance_jobs.queued_at IS 'When it was queued';
COMMENT ON COLUMN dl_maintenance_jobs.holder IS 'The worker that does it, or did';
COMMENT ON COLUMN dl_maintenance_jobs.expires_at IS 'Until when it is the holder''s, by the database''s clock';
COMMENT ON COLUMN dl_maintenance_jobs.started_at IS 'When it was begun; null while it waits';
COMMENT ON COLUMN dl_maintenance_jobs.ended_at IS 'When it was done, or given up';
COMMENT ON COLUMN dl_maintenance_jobs.size_bytes IS 'How many bytes it deleted or wrote';
COMMENT ON COLUMN dl_maintenance_jobs.outcome IS 'What came of it; begins with failed: if it failed';
