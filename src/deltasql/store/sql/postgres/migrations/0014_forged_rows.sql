-- Three ways in which a writer with no right to the log's rows still changed what others see.

-- A table of which a row was changed is not one that is being created: a dropped one would have a
-- head at version 0 again, and couldn't be brought back.
CREATE OR REPLACE FUNCTION dl_create_head(p_table_id bigint, p_ict bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dl_table_heads
        (table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version)
    SELECT t.table_id, 0, p_ict, 0, 0, 0
    FROM dl_tables AS t
    JOIN dl_places AS p ON p.table_id = t.table_id
    WHERE t.table_id = p_table_id AND t.xmin = pg_current_xact_id()::xid AND p.place <> ''
      AND t.dropped_id = 0 AND p_ict <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
      AND NOT EXISTS (SELECT 1 FROM dl_table_versions AS v WHERE v.table_id = p_table_id);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'DL003',
            MESSAGE = format('table %s is not being created', p_table_id);
    END IF;
END $$;
COMMENT ON FUNCTION dl_create_head IS 'The head of a table that this transaction creates';

-- The values of a partition stay as who first wrote to it says: by others, later commits would be
-- left out of what conditions select.
CREATE OR REPLACE FUNCTION dl_index_partition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.partition_key <> ('x' || encode(substr(sha256(convert_to(NEW.partition_values, 'UTF8')),
                                                  1, 8), 'hex'))::bit(64)::bigint THEN
        RAISE EXCEPTION USING ERRCODE = 'DL003',
            MESSAGE = format('%s is not the key of the partition %s', NEW.partition_key,
                             left(NEW.partition_values, 200));
    END IF;
    INSERT INTO dl_partition_values
    SELECT NEW.table_id, NEW.partition_key, found.*
    FROM dl_partition_values_in(NEW.partition_values) AS found
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION dl_index_partition IS
    'Keeps dl_partition_values complete, and partitions to the keys of their values';

CREATE FUNCTION dl_refuse_forged_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM dl_table_versions AS v
    WHERE v.table_id = NEW.table_id AND v.version = NEW.version
      AND v.xmin = pg_current_xact_id()::xid;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'DL003',
            MESSAGE = format('version %s of table %s is not being written', NEW.version,
                             NEW.table_id);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION dl_refuse_forged_moves IS
    'Where rows went is said by who moved them: a delete that follows finds its rows by it';

DO $$
DECLARE
    v_table text;
BEGIN
    -- CREATE OR REPLACE keeps who may call a function, and forgets as whom it runs.
    EXECUTE format('ALTER FUNCTION dl_create_head(bigint, bigint) SECURITY DEFINER '
                   'SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION dl_index_partition() SECURITY DEFINER '
                   'SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION dl_refuse_forged_moves() SET search_path = %I, pg_temp',
                   current_schema());
    FOREACH v_table IN ARRAY ARRAY['dl_moved_rows', 'dl_row_orders'] LOOP
        EXECUTE format('CREATE TRIGGER %s_refuse BEFORE INSERT ON %s FOR EACH ROW'
                       ' WHEN (current_user <> %L) EXECUTE FUNCTION dl_refuse_forged_moves()',
                       v_table, v_table, current_user);
    END LOOP;
END $$;
