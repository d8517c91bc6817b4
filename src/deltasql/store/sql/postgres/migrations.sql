-- Differs: information_schema hides tables on which a role has no right: to it there would be no lake.

-- name: migrations_exist
SELECT 1
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relname = 'dl_schema_migrations';
