-- Differs: information_schema hides tables on which a role has no right: to it there would be no lake.

-- name: migrations_exist
SELECT 1
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relname = 'dl_schema_migrations';

-- name: schemas_closed
-- Where this role looks for a log and may not: current_schema() passes these schemas over, and to
-- such a role they are empty.
SELECT n.nspname, EXISTS (
    SELECT 1 FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = n.oid AND c.relname = 'dl_schema_migrations'
)
FROM unnest(string_to_array(pg_catalog.current_setting('search_path'), ',')) WITH ORDINALITY
    AS path (name, place)
JOIN pg_catalog.pg_namespace AS n
    ON n.nspname = replace(btrim(path.name, ' "'), '$user', current_user)
WHERE NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
ORDER BY path.place;

-- name: schemas_used
SELECT pg_catalog.current_setting('search_path'), current_schema();
