-- Partition values one by one, in indexes: what conditions on them are decided by.

CREATE TABLE dl_partition_values (  -- What conditions on partition values are decided by
    table_id       INTEGER NOT NULL,  -- The table
    partition_key  INTEGER NOT NULL,  -- The partition
    name           TEXT NOT NULL,  -- Physical name of the partition column
    form           TEXT NOT NULL,  -- What the value looks like: null, number, day or other
    value          TEXT,  -- Its first 100 characters; null if there is none
    number         REAL,  -- The number that it is, if its form is number
    PRIMARY KEY (table_id, partition_key, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX dl_partition_values_value ON dl_partition_values (table_id, name, value);
CREATE INDEX dl_partition_values_number ON dl_partition_values (table_id, name, form, number);

-- Of numbers only whole ones: SQLite can not know others from text without functions of its own.
CREATE TRIGGER dl_partitions_index AFTER INSERT ON dl_partitions BEGIN
INSERT OR IGNORE INTO dl_partition_values
SELECT
    NEW.table_id, NEW.partition_key, item.key,
    CASE
        WHEN coalesce(item.value, '') = '' THEN 'null'
        WHEN length(item.value) < 19 AND (item.value GLOB '[0-9]*' AND item.value NOT GLOB '*[^0-9]*'
        OR item.value GLOB '-[0-9]*' AND substr(item.value, 2) NOT GLOB '*[^0-9]*')
        THEN 'number'
        WHEN item.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'
        OR item.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][ T]*'
        THEN 'day'
        ELSE 'other' END,
    substr(nullif(item.value, ''), 1, 100),
    CASE
        WHEN length(item.value) < 19 AND (item.value GLOB '[0-9]*' AND item.value NOT GLOB '*[^0-9]*'
        OR item.value GLOB '-[0-9]*' AND substr(item.value, 2) NOT GLOB '*[^0-9]*')
        THEN CAST(CAST(item.value AS INTEGER) AS REAL) END
FROM json_each(NEW.partition_values) AS item;
END;
CREATE TRIGGER dl_partitions_forget AFTER DELETE ON dl_partitions BEGIN
DELETE FROM dl_partition_values
WHERE table_id = OLD.table_id AND partition_key = OLD.partition_key;
END;

INSERT INTO dl_partition_values
SELECT
    p.table_id, p.partition_key, item.key,
    CASE
        WHEN coalesce(item.value, '') = '' THEN 'null'
        WHEN length(item.value) < 19 AND (item.value GLOB '[0-9]*' AND item.value NOT GLOB '*[^0-9]*'
        OR item.value GLOB '-[0-9]*' AND substr(item.value, 2) NOT GLOB '*[^0-9]*')
        THEN 'number'
        WHEN item.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'
        OR item.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][ T]*'
        THEN 'day'
        ELSE 'other' END,
    substr(nullif(item.value, ''), 1, 100),
    CASE
        WHEN length(item.value) < 19 AND (item.value GLOB '[0-9]*' AND item.value NOT GLOB '*[^0-9]*'
        OR item.value GLOB '-[0-9]*' AND substr(item.value, 2) NOT GLOB '*[^0-9]*')
        THEN CAST(CAST(item.value AS INTEGER) AS REAL) END
FROM dl_partitions AS p, json_each(p.partition_values) AS item;
