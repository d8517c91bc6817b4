-- Nobody but the owner writes a lease or a status that no run of the mirror would: with a token that
-- can't be raised any more, say, a table was not mirrored until the owner deleted the row.

DELETE FROM dl_mirror_leases
WHERE token NOT BETWEEN 1 AND 4611686018427387904
   OR num_nonnulls(mirrored_version, total_files, total_bytes) NOT IN (0, 3)
   OR num_nonnulls(due_version, actions_since) NOT IN (0, 2);
UPDATE dl_mirror_status SET retry_count = 0, last_attempt_at = NULL
WHERE status <> 'SUCCESS' AND (retry_count NOT BETWEEN 0 AND 1000000
                               OR last_attempt_at > now() + interval '1 day');

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
