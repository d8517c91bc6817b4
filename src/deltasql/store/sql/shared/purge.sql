-- name: purge_active_files
DELETE FROM dl_active_files WHERE table_id = :table_id;

-- name: purge_cdc_files
DELETE FROM dl_cdc_files WHERE table_id = :table_id;

-- name: purge_dead_files
DELETE FROM dl_dead_files WHERE table_id = :table_id;

-- name: purge_domain_metadata
DELETE FROM dl_domain_metadata WHERE table_id = :table_id;

-- name: purge_metadata_updates
DELETE FROM dl_metadata_updates WHERE table_id = :table_id;

-- name: purge_mirror_leases
DELETE FROM dl_mirror_leases WHERE table_id = :table_id;

-- name: purge_mirror_status
DELETE FROM dl_mirror_status WHERE table_id = :table_id;

-- name: purge_partitions
DELETE FROM dl_partitions WHERE table_id = :table_id;

-- name: purge_protocol_updates
DELETE FROM dl_protocol_updates WHERE table_id = :table_id;

-- name: purge_table_heads
DELETE FROM dl_table_heads WHERE table_id = :table_id;

-- name: purge_table_versions
DELETE FROM dl_table_versions WHERE table_id = :table_id;

-- name: purge_tables
DELETE FROM dl_tables WHERE table_id = :table_id;

-- name: purge_trusted_versions
DELETE FROM dl_trusted_versions WHERE table_id = :table_id;

-- name: purge_txn_actions
DELETE FROM dl_txn_actions WHERE table_id = :table_id;

-- name: purge_places
DELETE FROM dl_places WHERE table_id = :table_id;

-- name: purge_purges
DELETE FROM dl_purges WHERE table_id = :table_id;

-- name: purge_table_sources
DELETE FROM dl_table_sources WHERE table_id = :table_id;
