-- Nobody but the owner writes the mirror's status of a version that is not committed.

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

-- Not for the owner, as whom commits run: they would pay for it.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION dl_refuse_forged_status() SET search_path = %I, pg_temp',
                   current_schema());
    EXECUTE format('CREATE TRIGGER dl_mirror_status_refuse BEFORE INSERT ON dl_mirror_status'
                   ' FOR EACH ROW WHEN (current_user <> %L) EXECUTE FUNCTION'
                   ' dl_refuse_forged_status()', current_user);
END $$;
