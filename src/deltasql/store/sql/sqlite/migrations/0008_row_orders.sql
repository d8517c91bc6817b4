-- Where rows went that optimize put in order.

CREATE TABLE dl_row_orders (  -- Where optimize put rows that it sorted: what was live of the files that a version removed, one after the other by their paths, and the place that each row has in those it added
    table_id    INTEGER NOT NULL,  -- The table
    version     INTEGER NOT NULL,  -- The version of optimize's commit
    row_counts  TEXT NOT NULL,  -- How many rows were live in each removed file, in the order of their paths, a JSON array
    row_order   BLOB NOT NULL,  -- The place of each of these rows among those of the added files, one after the other by their paths: 32-bit numbers, little-endian, in zlib
    created_at  TEXT NOT NULL,  -- When it was committed; kept for as long as removed files are
    PRIMARY KEY (table_id, version)
) STRICT, WITHOUT ROWID;
