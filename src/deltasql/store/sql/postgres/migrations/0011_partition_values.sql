-- Partition values one by one, in indexes: what conditions on them are decided by.

CREATE TABLE dl_partition_values (
    table_id       bigint NOT NULL,
    partition_key  bigint NOT NULL,
    name           text COLLATE "C" NOT NULL,
    form           text NOT NULL,
    value          text COLLATE "C",
    number         double precision,
    PRIMARY KEY (table_id, partition_key, name)
);
COMMENT ON TABLE dl_partition_values IS 'What conditions on partition values are decided by';
COMMENT ON COLUMN dl_partition_values.table_id IS 'The table';
COMMENT ON COLUMN dl_partition_values.partition_key IS 'The partition';
COMMENT ON COLUMN dl_partition_values.name IS 'Physical name of the partition column';
COMMENT ON COLUMN dl_partition_values.form IS 'What the value looks like: null, number, day or other';
COMMENT ON COLUMN dl_partition_values.value IS 'Its first 100 characters; null if there is none';
COMMENT ON COLUMN dl_partition_values.number IS 'The number that it is, if its form is number';
CREATE INDEX dl_partition_values_value ON dl_partition_values (table_id, name, value);
CREATE INDEX dl_partition_values_number ON dl_partition_values (table_id, name, form, number);
-- A column's values have one form: without this the planner takes them for independent.
CREATE STATISTICS dl_partition_values_forms (mcv) ON table_id, name, form FROM dl_partition_values;

CREATE FUNCTION dl_partition_values_in(p_values text)
RETURNS TABLE (name text, form text, value text, number double precision)
LANGUAGE sql IMMUTABLE AS $$
    SELECT item.key, shape.form, left(nullif(item.value, ''), 100),
           CASE WHEN shape.form = 'number' THEN item.value::double precision END
    FROM json_each_text(p_values::json) AS item
    CROSS JOIN LATERAL (SELECT CASE
        WHEN coalesce(item.value, '') = '' THEN 'null'
        WHEN item.value ~ '^[+-]?[0-9]{1,38}([.][0-9]{0,38})?$' THEN 'number'
        WHEN item.value ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]|$)' THEN 'day'
        ELSE 'other' END) AS shape (form)
$$;
COMMENT ON FUNCTION dl_partition_values_in IS 'The rows of dl_partition_values for a partition';

CREATE FUNCTION dl_index_partition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dl_partition_values
    SELECT NEW.table_id, NEW.partition_key, found.*
    FROM dl_partition_values_in(NEW.partition_values) AS found
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION dl_index_partition IS 'Keeps dl_partition_values complete';

CREATE FUNCTION dl_forget_partition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM dl_partition_values
    WHERE table_id = OLD.table_id AND partition_key = OLD.partition_key;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION dl_forget_partition IS 'Keeps dl_partition_values free of what is gone';

CREATE TRIGGER dl_partitions_index AFTER INSERT ON dl_partitions
FOR EACH ROW EXECUTE FUNCTION dl_index_partition();
CREATE TRIGGER dl_partitions_forget AFTER DELETE ON dl_partitions
FOR EACH ROW EXECUTE FUNCTION dl_forget_partition();

-- As the owner: nobody else writes the index. Roles that could read partitions can read it too.
DO $$
DECLARE
    v_function regprocedure;
    v_role text;
BEGIN
    FOR v_function IN
        SELECT p.oid::regprocedure FROM pg_proc AS p
        WHERE p.pronamespace = current_schema()::regnamespace
          AND p.proname IN ('dl_index_partition', 'dl_forget_partition')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp',
                       v_function, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
    END LOOP;
    FOR v_role IN
        SELECT DISTINCT r.grantee::regrole::text
        FROM pg_class AS c, aclexplode(c.relacl) AS r
        WHERE c.oid = 'dl_partitions'::regclass AND r.privilege_type = 'SELECT'
          AND r.grantee <> 0 AND r.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT SELECT ON dl_partition_values TO %s', v_role);
    END LOOP;
END $$;

INSERT INTO dl_partition_values
SELECT p.table_id, p.partition_key, found.*
FROM dl_partitions AS p
CROSS JOIN LATERAL dl_partition_values_in(p.partition_values) AS found;
