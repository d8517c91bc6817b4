-- Where rows went that optimize put in order.

CREATE TABLE dl_row_orders (
    table_id    BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    row_counts  VARCHAR NOT NULL,
    row_order   BLOB NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (table_id, version)
);
COMMENT ON TABLE dl_row_orders IS 'Where optimize put rows that it sorted: what was live of the files that a version removed, one after the other by their paths, and the place that each row has in those it added';
COMMENT ON COLUMN dl_row_orders.table_id IS 'The table';
COMMENT ON COLUMN dl_row_orders.version IS 'The version of optimize''s commit';
COMMENT ON COLUMN dl_row_orders.row_counts IS 'How many rows were live in each removed file, in the order of their paths, a JSON array';
COMMENT ON COLUMN dl_row_orders.row_order IS 'The place of each of these rows among those of the added files, one after the other by their paths: 32-bit numbers, little-endian, in zlib';
COMMENT ON COLUMN dl_row_orders.created_at IS 'When it was committed; kept for as long as removed files are';
