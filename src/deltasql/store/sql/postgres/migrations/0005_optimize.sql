-- What optimize has to do, and where it put rows.

CREATE TABLE dl_optimize_bins (
    bin_id         text PRIMARY KEY,
    table_id       bigint NOT NULL,
    settings       text NOT NULL,
    files          text NOT NULL,
    size_bytes     bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    claimed_by     text,
    claimed_until  timestamptz
);
COMMENT ON TABLE dl_optimize_bins IS 'Files that optimize is about to write together: a queue that processes share';
COMMENT ON COLUMN dl_optimize_bins.bin_id IS 'Made by the process that planned it; bins of one plan in their order';
COMMENT ON COLUMN dl_optimize_bins.table_id IS 'The table';
COMMENT ON COLUMN dl_optimize_bins.settings IS 'What was asked for, a JSON object: whoever asks for the same takes part';
COMMENT ON COLUMN dl_optimize_bins.files IS 'Paths as the log has them, a JSON array';
COMMENT ON COLUMN dl_optimize_bins.size_bytes IS 'Size of the files together';
COMMENT ON COLUMN dl_optimize_bins.created_at IS 'When it was planned';
COMMENT ON COLUMN dl_optimize_bins.expires_at IS 'Until when it holds its place, by the database''s clock, unless somebody goes on with the queue';
COMMENT ON COLUMN dl_optimize_bins.claimed_by IS 'Who works on it; null while nobody does';
COMMENT ON COLUMN dl_optimize_bins.claimed_until IS 'Until when, by the database''s clock, unless that is renewed';

CREATE TABLE dl_moved_rows (
    table_id    bigint NOT NULL,
    version     bigint NOT NULL,
    row_counts  text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_moved_rows IS 'Where optimize put rows: what was live of the files that a version removed, one after the other by their paths, are the rows of those it added';
COMMENT ON COLUMN dl_moved_rows.table_id IS 'The table';
COMMENT ON COLUMN dl_moved_rows.version IS 'The version of optimize''s commit';
COMMENT ON COLUMN dl_moved_rows.row_counts IS 'How many rows were live in each removed file, in the order of their paths, a JSON array';
COMMENT ON COLUMN dl_moved_rows.created_at IS 'When it was committed; kept for as long as removed files are';
