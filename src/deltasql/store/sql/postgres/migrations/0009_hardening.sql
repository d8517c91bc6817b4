-- Where files outside of their tables' own folders may be read, and what writers may do.

CREATE TABLE dl_table_sources (
    table_id  bigint NOT NULL,
    source    text NOT NULL,
    PRIMARY KEY (table_id, source)
);
COMMENT ON TABLE dl_table_sources IS 'Places outside of its own from which a table may read';
COMMENT ON COLUMN dl_table_sources.table_id IS 'The table';
COMMENT ON COLUMN dl_table_sources.source IS 'A place in the spelling of dl_places, with a slash at the end; empty for anywhere';

-- Tables that name files by absolute paths so far go on reading them, wherever they are.
INSERT INTO dl_table_sources (table_id, source)
SELECT DISTINCT table_id, ''
FROM (
    SELECT table_id FROM dl_active_files
    WHERE path LIKE '%:/%' OR path LIKE '/%' OR deletion_vector LIKE '%"storageType":"p"%'
    UNION ALL
    SELECT table_id FROM dl_dead_files
    WHERE path LIKE '%:/%' OR path LIKE '/%' OR deletion_vector LIKE '%"storageType":"p"%'
    UNION ALL
    SELECT table_id FROM dl_cdc_files WHERE path LIKE '%:/%' OR path LIKE '/%'
) AS named;

-- What a writer does to the log beside dl_commit. These functions run as the owner of the log, so
-- that a writer needs no right of its own to rows: it can add the next version, and neither change
-- what is committed nor put a table elsewhere.

CREATE FUNCTION dl_lock_heads(p_table_ids bigint[])
RETURNS TABLE (table_id bigint, current_version bigint, last_ict bigint, earliest_version bigint,
               metadata_version bigint, protocol_version bigint, now_ms bigint)
LANGUAGE sql AS $$
    SELECT h.table_id, h.current_version, h.last_ict, h.earliest_version, h.metadata_version,
           h.protocol_version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM dl_table_heads AS h
    WHERE h.table_id = ANY(p_table_ids)
    ORDER BY h.table_id
    FOR UPDATE
$$;
COMMENT ON FUNCTION dl_lock_heads IS 'The heads of tables, locked until the transaction ends';

CREATE FUNCTION dl_hold_head(p_table_id bigint)
RETURNS TABLE (table_id bigint) LANGUAGE sql AS $$
    SELECT h.table_id FROM dl_table_heads AS h WHERE h.table_id = p_table_id FOR KEY SHARE
$$;
COMMENT ON FUNCTION dl_hold_head IS
    'Keeps a table from being dropped or vacuumed until the transaction ends; others may append';

CREATE FUNCTION dl_write_next(
    p_table_id bigint, p_version bigint, p_ict bigint, p_commit_id text,
    p_digest bytea, p_encoding text, p_body bytea,
    p_committer text, p_operation text, p_operation_params text, p_transaction_id text,
    p_is_blind_append boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_head dl_table_heads;
    v_is_new boolean;
BEGIN
    SELECT * INTO v_head FROM dl_table_heads AS h WHERE h.table_id = p_table_id FOR UPDATE;
    -- A table that this transaction creates has its head before its first version.
    v_is_new := p_version = 0 AND v_head.current_version = 0 AND NOT EXISTS (
        SELECT 1 FROM dl_table_versions AS v WHERE v.table_id = p_table_id);
    IF v_head.table_id IS NULL
       OR NOT v_is_new AND (p_version <> v_head.current_version + 1 OR p_ict <= v_head.last_ict)
       -- What another server, whose clock was fast, committed is for the owner to take back.
       OR session_user <> current_user AND p_ict > greatest(
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint, v_head.last_ict + 1)
       OR p_encoding = 'raw' AND p_digest <> sha256(p_body) THEN
        RAISE EXCEPTION USING ERRCODE = 'DL003',
            MESSAGE = format('version %s of table %s is not the next one, or not as it says',
                             p_version, p_table_id);
    END IF;
    IF NOT v_is_new THEN
        UPDATE dl_table_heads AS h SET current_version = p_version, last_ict = p_ict
        WHERE h.table_id = p_table_id;
    END IF;
    PERFORM dl_write_version(p_table_id, p_version, p_ict, p_commit_id, p_digest, p_encoding,
                             p_body, p_committer, p_operation, p_operation_params,
                             p_transaction_id, p_is_blind_append);
END $$;
COMMENT ON FUNCTION dl_write_next IS
    'The next version of a table, its mirror status, and the head that says so';

CREATE FUNCTION dl_write_next_rows(
    p_table_id bigint, p_version bigint, p_adds dl_added_file[], p_removes json, p_txns json,
    p_other json, p_may_have_vectors boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Only those of a version that this transaction writes.
    PERFORM 1 FROM dl_table_versions AS v
    WHERE v.table_id = p_table_id AND v.version = p_version
      AND v.xmin = pg_current_xact_id()::xid;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'DL003',
            MESSAGE = format('version %s of table %s is not being written', p_version, p_table_id);
    END IF;
    PERFORM dl_write_rows(p_table_id, p_version, p_adds, p_removes, p_txns, p_other,
                          p_may_have_vectors);
END $$;
COMMENT ON FUNCTION dl_write_next_rows IS 'Rows of a version that dl_write_next has just written';

CREATE FUNCTION dl_lock_places() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE dl_places IN SHARE UPDATE EXCLUSIVE MODE;
END $$;
COMMENT ON FUNCTION dl_lock_places IS
    'One transaction at a time takes a place or begins a purge; commits never touch it';

CREATE FUNCTION dl_create_table(
    p_name text, p_location text, p_min_reader integer, p_min_writer integer, p_properties text
) RETURNS TABLE (table_id bigint, now_ms bigint) LANGUAGE sql AS $$
    INSERT INTO dl_tables AS t
        (name, location, protocol_min_reader, protocol_min_writer, properties)
    VALUES (p_name, p_location, p_min_reader, p_min_writer, p_properties)
    ON CONFLICT (name, dropped_id) DO NOTHING
    RETURNING t.table_id, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;
COMMENT ON FUNCTION dl_create_table IS 'A new table, without a place and a head; none if the name is taken';

CREATE FUNCTION dl_claim_place(p_table_id bigint, p_place text)
RETURNS TABLE (table_id bigint) LANGUAGE sql AS $$
    INSERT INTO dl_places AS p (table_id, place)
    SELECT t.table_id, p_place FROM dl_tables AS t
    WHERE t.table_id = p_table_id AND right(p_place, 1) = '/'
      AND NOT EXISTS (
          SELECT 1 FROM dl_places AS o
          WHERE o.place <> '' AND (starts_with(o.place, p_place) OR starts_with(p_place, o.place)))
    ON CONFLICT (table_id) DO NOTHING
    RETURNING p.table_id
$$;
COMMENT ON FUNCTION dl_claim_place IS 'Gives a place that is free to a table that has none';

CREATE FUNCTION dl_create_head(p_table_id bigint, p_ict bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dl_table_heads
        (table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version)
    SELECT t.table_id, 0, p_ict, 0, 0, 0
    FROM dl_tables AS t
    JOIN dl_places AS p ON p.table_id = t.table_id
    WHERE t.table_id = p_table_id AND t.xmin = pg_current_xact_id()::xid AND p.place <> ''
      AND p_ict <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'DL003',
            MESSAGE = format('table %s is not being created', p_table_id);
    END IF;
END $$;
COMMENT ON FUNCTION dl_create_head IS 'The head of a table that this transaction creates';

CREATE FUNCTION dl_rename_table(p_table_id bigint, p_name text)
RETURNS TABLE (table_id bigint) LANGUAGE sql AS $$
    UPDATE dl_tables AS t SET name = p_name
    WHERE t.table_id = p_table_id AND t.dropped_id = 0
    RETURNING t.table_id
$$;
COMMENT ON FUNCTION dl_rename_table IS 'Another name for a live table';

CREATE FUNCTION dl_drop_table(p_table_id bigint)
RETURNS TABLE (table_id bigint) LANGUAGE sql AS $$
    -- The head first, as commits do. Without it nothing can be committed any more.
    DELETE FROM dl_table_heads AS h WHERE h.table_id = p_table_id;
    UPDATE dl_tables AS t SET dropped_id = t.table_id, dropped_at = CURRENT_TIMESTAMP
    WHERE t.table_id = p_table_id AND t.dropped_id = 0
    RETURNING t.table_id
$$;
COMMENT ON FUNCTION dl_drop_table IS 'Drops a live table; its rows stay until it is purged';

CREATE FUNCTION dl_set_read_only(p_table_id bigint, p_reason text)
RETURNS TABLE (table_id bigint) LANGUAGE sql AS $$
    UPDATE dl_tables AS t SET read_only_reason = p_reason
    WHERE t.table_id = p_table_id AND t.dropped_id = 0 AND p_reason IS NOT NULL
    RETURNING t.table_id
$$;
COMMENT ON FUNCTION dl_set_read_only IS 'Says why a table may no longer be written';

-- As the owner, with a search path that nobody else can put anything into, and for nobody who was
-- not named. Roles that could commit so far still can.
DO $$
DECLARE
    v_function regprocedure;
    v_role text;
BEGIN
    FOR v_function IN
        SELECT p.oid::regprocedure FROM pg_proc AS p
        WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = ANY(ARRAY[
            'dl_commit', 'dl_lock_heads', 'dl_hold_head', 'dl_write_next', 'dl_write_next_rows',
            'dl_lock_places', 'dl_create_table', 'dl_claim_place', 'dl_create_head',
            'dl_rename_table', 'dl_drop_table', 'dl_set_read_only'])
    LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp',
                       v_function, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
        FOR v_role IN
            SELECT DISTINCT r.grantee::regrole::text
            FROM pg_class AS c, aclexplode(c.relacl) AS r
            WHERE c.oid = 'dl_table_versions'::regclass AND r.privilege_type = 'INSERT'
              AND r.grantee <> 0 AND r.grantee <> c.relowner
        LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', v_function, v_role);
        END LOOP;
    END LOOP;
END $$;
