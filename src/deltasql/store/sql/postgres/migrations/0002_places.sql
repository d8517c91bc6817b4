-- Which table lies where, and which purges have begun. Tables that are there already get their
-- places when the next one is created or adopted: links on local disk have to be followed.

CREATE TABLE dl_places (
    table_id  bigint PRIMARY KEY,
    place     text NOT NULL
);
COMMENT ON TABLE dl_places IS 'Which table lies where; no two live in one place, nor one within another';
COMMENT ON COLUMN dl_places.table_id IS 'The table';
COMMENT ON COLUMN dl_places.place IS 'Its location in one spelling for all, with a slash at the end; empty once another table has it';

CREATE TABLE dl_purges (
    table_id    bigint PRIMARY KEY,
    started_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE dl_purges IS 'Purges that have begun and not ended';
COMMENT ON COLUMN dl_purges.table_id IS 'The dropped table';
COMMENT ON COLUMN dl_purges.started_at IS 'When it began';
