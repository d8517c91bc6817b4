-- What each role needs, and no more. Run it as the owner of the log's tables, after deltasql init
-- and after each deltasql db migrate. Nobody but the owner can migrate, purge, rebuild, or change
-- a committed version.
--
--   {reader}  reads snapshots, files, history
--   {writer}  creates tables and commits as well, and mirrors what it committed
--   {mirror}  mirrors, and touches no action, version or head
--
-- Roles that don't exist yet:
--   CREATE ROLE {reader} NOLOGIN;
--   CREATE ROLE {writer} NOLOGIN;
--   CREATE ROLE {mirror} NOLOGIN;

BEGIN;

-- Up to PostgreSQL 14, and in databases that were upgraded from there, everybody may create functions
-- and operators here, and have them run as the writer or the owner.
REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC;

GRANT USAGE ON SCHEMA {schema} TO {reader}, {writer}, {mirror};

GRANT SELECT ON
    {schema}.dl_schema_migrations, {schema}.dl_tables, {schema}.dl_table_heads,
    {schema}.dl_table_versions, {schema}.dl_active_files, {schema}.dl_dead_files,
    {schema}.dl_partitions, {schema}.dl_partition_values,
    {schema}.dl_metadata_updates, {schema}.dl_protocol_updates,
    {schema}.dl_txn_actions, {schema}.dl_domain_metadata, {schema}.dl_cdc_files,
    {schema}.dl_mirror_status, {schema}.dl_mirror_leases, {schema}.dl_trusted_versions,
    {schema}.dl_places, {schema}.dl_table_sources, {schema}.dl_purges, {schema}.dl_sessions, {schema}.dl_pins,
    {schema}.dl_vacuums, {schema}.dl_vacuum_files, {schema}.dl_optimize_bins,
    {schema}.dl_moved_rows, {schema}.dl_row_orders, {schema}.dl_expirations,
    {schema}.dl_maintenance_jobs, {schema}.dl_namespaces,
    {schema}.dl_add_files, {schema}.dl_remove_files,
    {schema}.vw_latest_action_per_path, {schema}.vw_active_files, {schema}.vw_file_lifetimes
TO {reader}, {writer}, {mirror};

-- Commits, and all else that writers do to the log: functions that check, and run as the owner.
-- By their owner: others of the same name may be somebody else's.
DO $grants$
DECLARE
    v_function regprocedure;
BEGIN
    FOR v_function IN
        SELECT p.oid::regprocedure FROM pg_proc AS p
        JOIN pg_class AS c ON c.relnamespace = p.pronamespace AND c.relowner = p.proowner
        WHERE c.oid = '{schema}.dl_table_heads'::regclass AND p.prosecdef
          AND starts_with(p.proname, 'dl_')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO ', v_function) || $role${writer}$role$;
    END LOOP;
END $grants$;
GRANT INSERT ON {schema}.dl_table_sources TO {writer};
GRANT UPDATE (mirror_paused) ON {schema}.dl_tables TO {writer};

-- [direct
-- Large commits go straight into the tables: rows are added; only heads, tables and live files change. Large ones are quicker with
-- TEMPORARY on the database, which PostgreSQL grants to everybody unless you have revoked it.
GRANT INSERT ON
    {schema}.dl_tables, {schema}.dl_table_heads, {schema}.dl_table_versions,
    {schema}.dl_active_files, {schema}.dl_dead_files, {schema}.dl_partitions,
    {schema}.dl_metadata_updates, {schema}.dl_protocol_updates, {schema}.dl_txn_actions,
    {schema}.dl_domain_metadata, {schema}.dl_cdc_files, {schema}.dl_places
TO {writer};
GRANT UPDATE, DELETE ON {schema}.dl_table_heads TO {writer};
GRANT UPDATE ON {schema}.dl_tables, {schema}.dl_places TO {writer};
GRANT DELETE ON {schema}.dl_active_files TO {writer};
GRANT INSERT, UPDATE ON {schema}.dl_trusted_versions TO {writer};
-- ]
-- [strict
-- Nothing else: what earlier grants gave beyond it goes. Large commits then are sent to the functions
-- while the head is locked.
REVOKE INSERT, UPDATE, DELETE ON
    {schema}.dl_tables, {schema}.dl_table_heads, {schema}.dl_table_versions,
    {schema}.dl_active_files, {schema}.dl_dead_files, {schema}.dl_partitions,
    {schema}.dl_metadata_updates, {schema}.dl_protocol_updates, {schema}.dl_txn_actions,
    {schema}.dl_domain_metadata, {schema}.dl_cdc_files, {schema}.dl_places
FROM {writer};
GRANT UPDATE (mirror_paused) ON {schema}.dl_tables TO {writer};
-- What was proven of the rows: checkpoints and checks begin there, and rows that a writer made up
-- would pass for proven.
REVOKE INSERT, UPDATE ON {schema}.dl_trusted_versions FROM {writer};
-- ]

-- Empty schemas of the catalog are no part of the log.
GRANT INSERT, UPDATE, DELETE ON {schema}.dl_namespaces TO {writer};

-- Upkeep: who is at work, what is held, what vacuum deletes, what optimize moves, and what waits.
GRANT INSERT, UPDATE, DELETE ON {schema}.dl_sessions TO {writer}, {mirror};
GRANT INSERT, UPDATE, DELETE ON {schema}.dl_pins TO {writer};
GRANT INSERT, UPDATE ON {schema}.dl_vacuums TO {writer};
GRANT INSERT, UPDATE, DELETE ON
    {schema}.dl_vacuum_files, {schema}.dl_optimize_bins, {schema}.dl_maintenance_jobs
TO {writer};
GRANT INSERT, DELETE ON {schema}.dl_moved_rows, {schema}.dl_row_orders TO {writer};

-- The mirror: its status, its leases, what its checkpoints rest on, and the switch that pauses a
-- table.
GRANT INSERT, UPDATE ON {schema}.dl_mirror_leases TO {writer}, {mirror};
GRANT INSERT, UPDATE ON {schema}.dl_trusted_versions TO {mirror};
-- But not the digest, by which a changed commit file is known; earlier releases granted it.
REVOKE UPDATE ON {schema}.dl_mirror_status FROM {writer}, {mirror};
GRANT INSERT, UPDATE (status, json_written, checkpoint_written, error_message, retry_count,
                      last_attempt_at, mirrored_at)
ON {schema}.dl_mirror_status TO {writer}, {mirror};
GRANT UPDATE (mirror_paused) ON {schema}.dl_tables TO {mirror};

COMMIT;
