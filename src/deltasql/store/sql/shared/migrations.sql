-- name: migrations_exist
SELECT 1
FROM information_schema.tables
WHERE table_schema = current_schema() AND table_name = 'dl_schema_migrations';

-- name: migration_newest
SELECT max(version) FROM dl_schema_migrations;

-- name: migration_record
INSERT INTO dl_schema_migrations (version, name) VALUES (:version, :name);
