-- Which table lies where, and which purges have begun. Tables that are there already get their
-- places when the next one is created or adopted: links on local disk have to be followed.

CREATE TABLE dl_places (  -- Which table lies where; no two live in one place, nor one within another
    table_id  INTEGER PRIMARY KEY,  -- The table
    place     TEXT NOT NULL  -- Its location in one spelling for all, with a slash at the end; empty once another table has it
) STRICT;

CREATE TABLE dl_purges (  -- Purges that have begun and not ended
    table_id    INTEGER PRIMARY KEY,  -- The dropped table
    started_at  TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP  -- When it began
) STRICT;
