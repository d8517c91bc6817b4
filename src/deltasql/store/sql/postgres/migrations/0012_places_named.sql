-- A table's place is the one that its location names: nobody claims another than he writes to.

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

CREATE OR REPLACE FUNCTION dl_claim_place(p_table_id bigint, p_place text)
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

-- CREATE OR REPLACE keeps who may call it, and forgets as whom it runs.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION dl_claim_place(bigint, text) SECURITY DEFINER '
                   'SET search_path = %I, pg_temp', current_schema());
END $$;
