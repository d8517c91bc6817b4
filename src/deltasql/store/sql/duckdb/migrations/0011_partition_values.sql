-- Partition values one by one, in indexes: what conditions on them are decided by.

-- No triggers and no indexes on ranges here: a view, which reads all partitions of the table.
CREATE VIEW dl_partition_values AS
    SELECT table_id, partition_key, item.key AS name,
           CASE
               WHEN coalesce(item.value, '') = '' THEN 'null'
               WHEN regexp_matches(item.value, '^[+-]?[0-9]{1,38}([.][0-9]{0,38})?$') THEN 'number'
               WHEN regexp_matches(item.value, '^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]|$)') THEN 'day'
               ELSE 'other'
           END AS form,
           left(nullif(item.value, ''), 100) AS value,
           CASE
               WHEN regexp_matches(item.value, '^[+-]?[0-9]{1,38}([.][0-9]{0,38})?$')
               THEN TRY_CAST(item.value AS DOUBLE)
           END AS number
    FROM (
        SELECT table_id, partition_key,
               unnest(map_entries(CAST(CAST(partition_values AS JSON) AS MAP(VARCHAR, VARCHAR))))
                   AS item
        FROM dl_partitions
    ) AS items;
COMMENT ON VIEW dl_partition_values IS 'What conditions on partition values are decided by';
COMMENT ON COLUMN dl_partition_values.table_id IS 'The table';
COMMENT ON COLUMN dl_partition_values.partition_key IS 'The partition';
COMMENT ON COLUMN dl_partition_values.name IS 'Physical name of the partition column';
COMMENT ON COLUMN dl_partition_values.form IS 'What the value looks like: null, number, day or other';
COMMENT ON COLUMN dl_partition_values.value IS 'Its first 100 characters; null if there is none';
COMMENT ON COLUMN dl_partition_values.number IS 'The number that it is, if its form is number';
