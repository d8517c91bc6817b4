-- The commit inside the database: one round trip for a small commit.

CREATE TYPE dl_added_file AS (
    path_key bytea, dv_key bytea, partition_key bigint, size_bytes bigint,
    modification_time bigint, num_records bigint, base_row_id bigint,
    default_row_commit_version bigint, data_change boolean,
    min_keys double precision[], max_keys double precision[], null_counts bigint[],
    path text, partition_values text, stats text, tags text, deletion_vector text,
    clustering_provider text, extra text
);
COMMENT ON TYPE dl_added_file IS 'A row of dl_active_files without its table and version';

-- Plans are cached for as long as a connection lives, and the first commits meet small tables:
-- without sequential scans the plan is right for large ones too.
CREATE FUNCTION dl_write_rows(
    p_table_id bigint, p_version bigint, p_adds dl_added_file[], p_removes json, p_txns json,
    p_other json, p_may_have_vectors boolean
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_written bigint;
    v_path text;
BEGIN
    IF p_removes IS NOT NULL THEN
        WITH gone AS MATERIALIZED (
            SELECT r.*, (
                SELECT a.ctid FROM dl_active_files AS a
                WHERE a.table_id = p_table_id AND a.path_key = r.path_key
                  AND a.dv_key = r.dv_key) AS place
            FROM json_to_recordset(p_removes) AS r (
                path_key bytea, dv_key bytea, path text, deletion_timestamp bigint,
                data_change boolean, deletion_vector text, action text)
        ), moved AS (
            DELETE FROM dl_active_files AS a USING gone AS g
            -- By table too: in a partitioned table a ctid is not unique.
            WHERE a.table_id = p_table_id AND a.ctid = g.place
            RETURNING a.*, g.deletion_timestamp, g.data_change AS remove_data_change, g.action
        ), kept AS (
            INSERT INTO dl_dead_files
            SELECT table_id, version, path_key, dv_key, partition_key, size_bytes,
                   modification_time, num_records, base_row_id, default_row_commit_version,
                   data_change, min_keys, max_keys, null_counts, path, partition_values, stats,
                   tags, deletion_vector, clustering_provider, extra,
                   p_version, deletion_timestamp, remove_data_change, action
            FROM moved
        )
        INSERT INTO dl_dead_files (table_id, path_key, dv_key, path, deletion_vector,
                                   removed_version, deletion_timestamp, remove_data_change,
                                   remove_action)
        SELECT p_table_id, g.path_key, g.dv_key, g.path, g.deletion_vector,
               p_version, g.deletion_timestamp, g.data_change, g.action
        FROM gone AS g
        WHERE g.place IS NULL;
    END IF;

    IF p_adds IS NOT NULL THEN
        INSERT INTO dl_active_files
        SELECT p_table_id, p_version, r.*
        FROM unnest(p_adds) AS r
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS v_written = ROW_COUNT;
        IF v_written < cardinality(p_adds) THEN
            PERFORM dl_restate_files(p_table_id, p_version, p_adds);
        END IF;
        IF p_may_have_vectors THEN
            SELECT r.path INTO v_path
            FROM unnest(p_adds) AS r
            CROSS JOIN LATERAL (
                SELECT 1 FROM dl_active_files AS a
                WHERE a.table_id = p_table_id AND a.path_key = r.path_key
                  AND a.dv_key <> r.dv_key LIMIT 1
            ) AS other
            LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION USING ERRCODE = 'DL001', MESSAGE = v_path;
            END IF;
        END IF;
    END IF;

    IF p_txns IS NOT NULL THEN
        INSERT INTO dl_txn_actions
            (table_id, version, app_key, app_id, txn_version, last_updated)
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_txns) AS r (
            app_key bytea, app_id text, txn_version bigint, last_updated bigint);
    END IF;

    IF p_other IS NOT NULL THEN
        PERFORM dl_write_other(p_table_id, p_version, p_other);
    END IF;
END $$;
COMMENT ON FUNCTION dl_write_rows IS 'The rows of a commit''s actions';

CREATE FUNCTION dl_restate_files(p_table_id bigint, p_version bigint, p_adds dl_added_file[])
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_path text;
BEGIN
    SELECT min(r.path) INTO v_path
    FROM unnest(p_adds) AS r
    GROUP BY r.path_key, r.dv_key
    HAVING count(*) > 1
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'DL002', MESSAGE = v_path;
    END IF;

    WITH moved AS (
        DELETE FROM dl_active_files AS a
        USING unnest(p_adds) AS r
        WHERE a.table_id = p_table_id AND a.path_key = r.path_key AND a.dv_key = r.dv_key
          AND a.version < p_version
        RETURNING a.*
    )
    INSERT INTO dl_dead_files
    SELECT table_id, version, path_key, dv_key, partition_key, size_bytes, modification_time,
           num_records, base_row_id, default_row_commit_version, data_change, min_keys,
           max_keys, null_counts, path, partition_values, stats, tags, deletion_vector,
           clustering_provider, extra, p_version, NULL, NULL, NULL
    FROM moved;

    INSERT INTO dl_active_files
    SELECT p_table_id, p_version, r.*
    FROM unnest(p_adds) AS r
    ON CONFLICT (table_id, path_key, dv_key) DO NOTHING;
END $$;
COMMENT ON FUNCTION dl_restate_files IS
    'Adds of files that are live already: the old rows become history';

CREATE FUNCTION dl_write_other(p_table_id bigint, p_version bigint, p_other json)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Most commits have one of these or none: an INSERT of nothing costs as much as a look.
    IF p_other -> 'partitions' IS NOT NULL THEN
        INSERT INTO dl_partitions
        SELECT p_table_id, r.*
        FROM json_to_recordset(p_other -> 'partitions') AS r (
            partition_key bigint, partition_values text)
        ON CONFLICT DO NOTHING;
    END IF;

    IF p_other -> 'domains' IS NOT NULL THEN
        INSERT INTO dl_domain_metadata
            (table_id, version, domain_key, domain, configuration, removed)
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_other -> 'domains') AS r (
            domain_key bytea, domain text, configuration text, removed boolean);
    END IF;

    IF p_other -> 'cdc' IS NOT NULL THEN
        INSERT INTO dl_cdc_files
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_other -> 'cdc') AS r (
            path text, size_bytes bigint, partition_values text, action text);
    END IF;

    IF p_other -> 'metadata' IS NOT NULL THEN
        INSERT INTO dl_metadata_updates
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_other -> 'metadata') AS r (
            schema_json text, partition_columns text, table_properties text,
            stats_columns text, action text);
        UPDATE dl_table_heads SET metadata_version = p_version WHERE table_id = p_table_id;
        UPDATE dl_tables SET properties = p_other -> 'metadata' -> 0 ->> 'table_properties'
        WHERE table_id = p_table_id;
    END IF;

    IF p_other -> 'protocol' IS NOT NULL THEN
        INSERT INTO dl_protocol_updates
        SELECT p_table_id, p_version, r.*
        FROM json_to_recordset(p_other -> 'protocol') AS r (
            min_reader_version integer, min_writer_version integer, action text);
        UPDATE dl_table_heads SET protocol_version = p_version WHERE table_id = p_table_id;
        UPDATE dl_tables
        SET protocol_min_reader = (p_other -> 'protocol' -> 0 ->> 'min_reader_version')::integer,
            protocol_min_writer = (p_other -> 'protocol' -> 0 ->> 'min_writer_version')::integer
        WHERE table_id = p_table_id;
    END IF;
END $$;
COMMENT ON FUNCTION dl_write_other IS 'Everything of a commit but its adds and removes';

CREATE FUNCTION dl_write_version(
    p_table_id bigint, p_version bigint, p_ict bigint, p_commit_id text,
    p_digest bytea, p_encoding text, p_body bytea,
    p_committer text, p_operation text, p_operation_params text, p_transaction_id text,
    p_is_blind_append boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dl_table_versions
    VALUES (p_table_id, p_version, p_commit_id, to_timestamp(p_ict / 1000.0), p_ict,
            p_committer, p_operation, p_operation_params, p_transaction_id, p_is_blind_append,
            p_digest, p_encoding, p_body);
    INSERT INTO dl_mirror_status (table_id, version, status, digest)
    VALUES (p_table_id, p_version, 'PENDING', p_digest);
END $$;
COMMENT ON FUNCTION dl_write_version IS 'The version and its mirror status';

CREATE FUNCTION dl_seen_txn(p_table_id bigint, p_txns json)
RETURNS bigint LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT seen.version
    FROM json_to_recordset(p_txns) AS r (app_key bytea, txn_version bigint)
    CROSS JOIN LATERAL (
        SELECT t.version, t.txn_version FROM dl_txn_actions AS t
        WHERE t.table_id = p_table_id AND t.app_key = r.app_key
        ORDER BY t.version DESC LIMIT 1
    ) AS seen
    WHERE seen.txn_version >= r.txn_version
    ORDER BY seen.version DESC LIMIT 1
$$;
COMMENT ON FUNCTION dl_seen_txn IS
    'The version that holds one of these transactions, or a later one, already';

CREATE FUNCTION dl_seen(p_table_id bigint, p_commit_id text, p_is_retry boolean, p_txns json)
RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_version bigint;
    v_ict bigint;
BEGIN
    PERFORM 1 FROM dl_table_heads AS h WHERE h.table_id = p_table_id FOR UPDATE;
    IF p_is_retry THEN
        SELECT v.version, v.in_commit_timestamp INTO v_version, v_ict
        FROM dl_table_versions AS v
        WHERE v.table_id = p_table_id AND v.commit_id = p_commit_id;
        IF FOUND THEN
            RETURN 'COMMITTED ' || v_version || ' ' || v_ict;
        END IF;
    END IF;
    RETURN 'TXN_SEEN ' || dl_seen_txn(p_table_id, p_txns);
END $$;
COMMENT ON FUNCTION dl_seen IS
    'What dl_commit answers to a commit, or a transaction in it, that is there already; else null';

-- The answer is one text, because a set of rows costs more than it tells. Statements that most
-- commits don't need are in functions of their own: the plain append pays for nothing else.
CREATE FUNCTION dl_commit(
    p_table_id bigint, p_commit_id text, p_is_retry boolean, p_lock_timeout text,
    p_expected bigint, p_metadata_version bigint, p_protocol_version bigint,
    p_body_start bytea, p_body_middle bytea, p_body_end bytea,
    p_committer text, p_operation text, p_operation_params text, p_transaction_id text,
    p_is_blind_append boolean, p_adds dl_added_file[], p_removes json, p_txns json,
    p_other json, p_may_have_vectors boolean
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_file dl_added_file;
    v_head dl_table_heads;
    v_version bigint;
    v_ict bigint;
    v_body bytea;
    v_digest bytea;
    v_seen text;
BEGIN
    -- Null where the connection itself carries the limit.
    IF p_lock_timeout IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_lock_timeout, true);
    END IF;
    IF p_is_retry OR p_txns IS NOT NULL THEN
        v_seen := dl_seen(p_table_id, p_commit_id, p_is_retry, p_txns);
        IF v_seen IS NOT NULL THEN
            RETURN v_seen;
        END IF;
    END IF;

    -- Lock, check and advance in one statement.
    UPDATE dl_table_heads AS h
    SET current_version = h.current_version + 1,
        last_ict = greatest(
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint, h.last_ict + 1)
    WHERE h.table_id = p_table_id
      AND (p_expected IS NULL OR h.current_version = p_expected)
      AND h.metadata_version = p_metadata_version
      AND h.protocol_version = p_protocol_version
    RETURNING h.current_version, h.last_ict INTO v_version, v_ict;
    IF NOT FOUND THEN
        SELECT * INTO v_head FROM dl_table_heads AS h WHERE h.table_id = p_table_id;
        IF NOT FOUND THEN
            RETURN 'NO_TABLE';
        END IF;
        RETURN format('VERSION_TAKEN %s %s %s %s', v_head.current_version, v_head.last_ict,
                      v_head.metadata_version, v_head.protocol_version);
    END IF;

    v_body := p_body_start || v_ict::text::bytea || p_body_middle || v_ict::text::bytea
              || p_body_end;
    v_digest := sha256(v_body);
    IF p_removes IS NULL AND p_txns IS NULL AND p_other IS NULL AND NOT p_may_have_vectors
       AND cardinality(p_adds) = 1 THEN
        v_file := p_adds[1];
        INSERT INTO dl_active_files
        VALUES (p_table_id, v_version, v_file.path_key, v_file.dv_key, v_file.partition_key,
                v_file.size_bytes, v_file.modification_time, v_file.num_records,
                v_file.base_row_id, v_file.default_row_commit_version, v_file.data_change,
                v_file.min_keys, v_file.max_keys, v_file.null_counts, v_file.path,
                v_file.partition_values, v_file.stats, v_file.tags, v_file.deletion_vector,
                v_file.clustering_provider, v_file.extra)
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            PERFORM dl_restate_files(p_table_id, v_version, p_adds);
        END IF;
    ELSE
        PERFORM dl_write_rows(p_table_id, v_version, p_adds, p_removes, p_txns, p_other,
                              p_may_have_vectors);
    END IF;
    INSERT INTO dl_table_versions
    VALUES (p_table_id, v_version, p_commit_id, to_timestamp(v_ict / 1000.0), v_ict,
            p_committer, p_operation, p_operation_params, p_transaction_id, p_is_blind_append,
            v_digest, 'raw', v_body);
    INSERT INTO dl_mirror_status (table_id, version, status, digest)
    VALUES (p_table_id, v_version, 'PENDING', v_digest);
    RETURN 'COMMITTED ' || v_version || ' ' || v_ict;
END $$;
COMMENT ON FUNCTION dl_commit IS
    'Commit one version. Answers COMMITTED version time, TXN_SEEN version, NO_TABLE, or VERSION_TAKEN and the head: version time metadata_version protocol_version';

CREATE FUNCTION active_files_at(p_table_id bigint, p_version bigint)
RETURNS TABLE (path text, size_bytes bigint, partition_values text, stats text,
               modification_time bigint, deletion_vector text, version bigint)
LANGUAGE sql STABLE AS $$
    SELECT f.path, f.size_bytes, f.partition_values, f.stats, f.modification_time,
           f.deletion_vector, f.version
    FROM dl_active_files AS f
    WHERE f.table_id = p_table_id AND f.version <= p_version
    UNION ALL
    SELECT f.path, f.size_bytes, f.partition_values, f.stats, f.modification_time,
           f.deletion_vector, f.version
    FROM dl_dead_files AS f
    WHERE f.version IS NOT NULL
      AND int8range((f.table_id << 40) | f.version, (f.table_id << 40) | f.removed_version)
          @> ((p_table_id << 40) | p_version)
      AND f.table_id = p_table_id
$$;
COMMENT ON FUNCTION active_files_at IS 'The files that are live at a version of a table';

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

CREATE FUNCTION dl_refuse_forged_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM dl_table_versions AS v
    WHERE v.table_id = NEW.table_id AND v.version = NEW.version AND v.digest = NEW.digest;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'DL003',
            MESSAGE = format('version %s of table %s is not committed, or not with this digest',
                             NEW.version, NEW.table_id);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION dl_refuse_forged_status IS
    'A row for a version to come would make that commit fail';

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

CREATE FUNCTION dl_refuse_forged_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'DL003',
        MESSAGE = format('%s of table %s: no run of the mirror writes this', TG_TABLE_NAME,
                         NEW.table_id);
END $$;
COMMENT ON FUNCTION dl_refuse_forged_note IS
    'A lease that nobody could take again, or an attempt without end, would stop a mirror';

CREATE FUNCTION dl_refuse_forged_lead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM dl_table_versions AS v
    WHERE v.table_id = NEW.table_id AND v.version = NEW.mirrored_version;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'DL003',
            MESSAGE = format('version %s of table %s is not committed', NEW.mirrored_version,
                             NEW.table_id);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION dl_refuse_forged_lead IS
    'A mirror that has versions to come would write none of them in their order';

-- Not for the owner, as whom commits run: they would pay for it.
DO $$
DECLARE
    v_function text;
    v_table text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['dl_refuse_forged_status', 'dl_refuse_forged_moves'] LOOP
        EXECUTE format('ALTER FUNCTION %s() SET search_path = %I, pg_temp',
                       v_function, current_schema());
    END LOOP;
    EXECUTE format('CREATE TRIGGER dl_mirror_status_refuse BEFORE INSERT ON dl_mirror_status'
                   ' FOR EACH ROW WHEN (current_user <> %L) EXECUTE FUNCTION'
                   ' dl_refuse_forged_status()', current_user);
    FOREACH v_table IN ARRAY ARRAY['dl_moved_rows', 'dl_row_orders'] LOOP
        EXECUTE format('CREATE TRIGGER %s_refuse BEFORE INSERT ON %s FOR EACH ROW'
                       ' WHEN (current_user <> %L) EXECUTE FUNCTION dl_refuse_forged_moves()',
                       v_table, v_table, current_user);
    END LOOP;
END $$;

-- A minute is the longest lease (LONGEST_LEASE). What a row has already is left: a clock that has
-- gone back since may have written it.
DO $$
DECLARE
    v_when text := format(' FOR EACH ROW WHEN (current_user <> %L AND ', current_user);
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['dl_refuse_forged_note', 'dl_refuse_forged_lead'] LOOP
        EXECUTE format('ALTER FUNCTION %s() SET search_path = %I, pg_temp',
                       v_function, current_schema());
    END LOOP;
    EXECUTE 'CREATE TRIGGER dl_mirror_leases_refuse_new BEFORE INSERT ON dl_mirror_leases' || v_when
        || $when$NOT (NEW.token = 1 AND octet_length(NEW.holder) <= 1000
            AND NEW.expires_at <= clock_timestamp() + interval '1 minute'
            AND num_nonnulls(NEW.mirrored_version, NEW.total_files, NEW.total_bytes,
                             NEW.due_version, NEW.actions_since, NEW.checkpoint_actions) = 0)
        ) EXECUTE FUNCTION dl_refuse_forged_note()$when$;
    EXECUTE 'CREATE TRIGGER dl_mirror_leases_refuse BEFORE UPDATE ON dl_mirror_leases' || v_when
        || $when$NOT (NEW.table_id = OLD.table_id AND NEW.work = OLD.work
            AND octet_length(NEW.holder) <= 1000
            AND (NEW.expires_at = OLD.expires_at
                 OR NEW.expires_at BETWEEN '1969-12-30' AND clock_timestamp() + interval '1 minute')
            AND (NEW.token = OLD.token AND NEW.holder = OLD.holder
                 OR NEW.token - 1 = OLD.token
                    AND (OLD.expires_at <= clock_timestamp()
                         OR OLD.expires_at > clock_timestamp() + interval '1 minute'))
            AND num_nonnulls(NEW.mirrored_version, NEW.total_files, NEW.total_bytes) IN (0, 3)
            AND num_nonnulls(NEW.due_version, NEW.actions_since) IN (0, 2)
            AND coalesce(least(NEW.mirrored_version, NEW.total_files, NEW.total_bytes,
                               NEW.actions_since, NEW.checkpoint_actions), 0) >= 0
            AND coalesce(NEW.due_version <= NEW.mirrored_version, true))
        ) EXECUTE FUNCTION dl_refuse_forged_note()$when$;
    EXECUTE 'CREATE TRIGGER dl_mirror_leases_refuse_lead BEFORE UPDATE ON dl_mirror_leases'
        || v_when || $when$NEW.mirrored_version IS DISTINCT FROM OLD.mirrored_version
            AND NEW.mirrored_version IS NOT NULL
        ) EXECUTE FUNCTION dl_refuse_forged_lead()$when$;
    EXECUTE 'CREATE TRIGGER dl_mirror_status_refuse_new BEFORE INSERT ON dl_mirror_status' || v_when
        || $when$NOT (NEW.status = 'PENDING' AND NOT NEW.json_written AND NOT NEW.checkpoint_written
            AND NEW.retry_count = 0
            AND num_nonnulls(NEW.error_message, NEW.last_attempt_at, NEW.mirrored_at) = 0)
        ) EXECUTE FUNCTION dl_refuse_forged_note()$when$;
    EXECUTE 'CREATE TRIGGER dl_mirror_status_refuse_note BEFORE UPDATE ON dl_mirror_status' || v_when
        || $when$NOT ((NEW.retry_count = OLD.retry_count OR NEW.retry_count = 0
                  OR NEW.retry_count::bigint - 1 = OLD.retry_count)
            AND (NEW.error_message IS NOT DISTINCT FROM OLD.error_message
                 OR coalesce(octet_length(NEW.error_message), 0) <= 20000)
            AND (NEW.last_attempt_at IS NOT DISTINCT FROM OLD.last_attempt_at
                 OR coalesce(NEW.last_attempt_at BETWEEN '1969-12-30'
                                AND clock_timestamp() + interval '1 minute', true))
            AND (NEW.mirrored_at IS NOT DISTINCT FROM OLD.mirrored_at
                 OR coalesce(NEW.mirrored_at BETWEEN '1969-12-30'
                                AND clock_timestamp() + interval '1 minute', true)))
        ) EXECUTE FUNCTION dl_refuse_forged_note()$when$;
END $$;

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

CREATE FUNCTION dl_place_of(p_location text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_scheme text := lower(substring(p_location FROM '^([A-Za-z][A-Za-z0-9+.-]+):'));
    v_rest text := p_location;
    v_root text := 'file:/';
    v_host text;
    v_part text;
    v_parts text[] := '{}';
BEGIN
    IF v_scheme IS NOT NULL THEN
        v_rest := substr(p_location, length(v_scheme) + 2);
        IF v_scheme <> 'file' THEN
            v_rest := regexp_replace(v_rest, '^//', '');
            v_host := split_part(v_rest, '/', 1);
            v_rest := split_part(split_part(substr(v_rest, length(v_host) + 1), '#', 1), '?', 1);
            IF v_scheme IN ('az', 'adl', 'abfs', 'abfss') THEN
                v_root := 'azure://' || lower(split_part(v_host, '@', 1)) || '/';
            ELSE
                v_root := CASE v_scheme WHEN 's3a' THEN 's3' ELSE v_scheme END || '://'
                    || lower(split_part(regexp_replace(v_host, '^.*@', ''), ':', 1)) || '/';
            END IF;
            v_rest := '/' || v_rest;
        END IF;
        IF position('%' IN v_rest) > 0 THEN
            SELECT convert_from(string_agg(
                CASE WHEN r.found[1] ~ '^%..' THEN decode(substr(r.found[1], 2), 'hex')
                     ELSE convert_to(r.found[1], 'UTF8') END, ''::bytea ORDER BY r.number), 'UTF8')
            INTO v_rest
            FROM regexp_matches(v_rest, '%[0-9A-Fa-f]{2}|[^%]+|%', 'g')
                WITH ORDINALITY AS r (found, number);
        END IF;
        IF v_scheme = 'file' AND starts_with(v_rest, '//') THEN
            v_rest := regexp_replace(v_rest, '^//[^/]*', '');
        END IF;
    END IF;
    IF NOT starts_with(v_rest, '/') THEN
        RETURN NULL;
    END IF;
    FOREACH v_part IN ARRAY string_to_array(v_rest, '/') LOOP
        IF v_part = '..' THEN
            v_parts := v_parts[1:cardinality(v_parts) - 1];
        ELSIF v_part NOT IN ('', '.') THEN
            v_parts := v_parts || v_part;
        END IF;
    END LOOP;
    RETURN v_root || array_to_string(v_parts || ''::text, '/');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION dl_place_of IS
    'The place that a location names, as far as its text tells: links on disk are not followed';

CREATE FUNCTION dl_claim_place(p_table_id bigint, p_place text)
RETURNS TABLE (table_id bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_named text;
    v_is_new boolean;
BEGIN
    SELECT dl_place_of(t.location), t.xmin = pg_current_xact_id()::xid INTO v_named, v_is_new
    FROM dl_tables AS t WHERE t.table_id = p_table_id;
    -- Only on disk, where links lead elsewhere, may a place be another than the location says.
    IF v_named IS NULL OR right(p_place, 1) <> '/' OR NOT (
        p_place = v_named OR starts_with(p_place, 'file:/') AND starts_with(v_named, 'file:/'))
    THEN
        RETURN;
    END IF;
    -- What the text of its location names has to be free as well; and so has what the locations
    -- of others name, where that is not their place.
    IF EXISTS (
        SELECT 1
        FROM dl_tables AS t
        LEFT JOIN dl_places AS o ON o.table_id = t.table_id
        CROSS JOIN LATERAL (
            SELECT o.place AS held
            UNION ALL
            SELECT dl_place_of(t.location)
            WHERE o.place IS NULL AND v_is_new
               OR starts_with(o.place, 'file:/')
                  AND o.place <> 'file:' || t.location || '/'
                  AND o.place <> 'file:' || substr(t.location, length('file://') + 1) || '/'
        ) AS h
        CROSS JOIN unnest(ARRAY[p_place, v_named]) AS w (wanted)
        WHERE t.table_id <> p_table_id AND h.held <> '' AND o.place IS DISTINCT FROM ''
          AND (starts_with(h.held, w.wanted) OR starts_with(w.wanted, h.held)))
    THEN
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO dl_places AS p (table_id, place) VALUES (p_table_id, p_place)
    ON CONFLICT (table_id) DO NOTHING
    RETURNING p.table_id;
END $$;
COMMENT ON FUNCTION dl_claim_place IS
    'Gives a place that is free, and that its location names, to a table that has none';

CREATE FUNCTION dl_create_head(p_table_id bigint, p_ict bigint)
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
            'dl_rename_table', 'dl_drop_table', 'dl_set_read_only', 'dl_index_partition',
            'dl_forget_partition'])
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
