-- Commits statement by statement, for databases in our own process; PostgreSQL has functions.

-- name: table_create
INSERT INTO dl_tables (name, location, protocol_min_reader, protocol_min_writer, properties)
VALUES (:name, :location, :protocol_min_reader, :protocol_min_writer, :properties)
RETURNING table_id;

-- name: head_drop
DELETE FROM dl_table_heads WHERE table_id = :table_id RETURNING table_id;

-- name: head_move
-- Checks and advances in one statement, as dl_commit does.
UPDATE dl_table_heads
SET current_version = current_version + 1,
    last_ict = CASE WHEN last_ict < :now THEN :now ELSE last_ict + 1 END
WHERE table_id = :table_id
  AND current_version = coalesce(:expected, current_version)
  AND metadata_version = :metadata_version
  AND protocol_version = :protocol_version
RETURNING current_version, last_ict;

-- name: metadata_move
UPDATE dl_table_heads SET metadata_version = :version WHERE table_id = :table_id;

-- name: protocol_move
UPDATE dl_table_heads SET protocol_version = :version WHERE table_id = :table_id;

-- name: table_set_properties
UPDATE dl_tables SET properties = :properties WHERE table_id = :table_id;

-- name: table_set_protocol
UPDATE dl_tables
SET protocol_min_reader = :min_reader, protocol_min_writer = :min_writer
WHERE table_id = :table_id;

-- name: txn_latest
SELECT txn_version, version
FROM dl_txn_actions
WHERE table_id = :table_id AND app_key = :app_key
ORDER BY version DESC
LIMIT 1;

-- name: status_insert
INSERT INTO dl_mirror_status (table_id, version, status, digest)
VALUES (:table_id, :version, 'PENDING', :digest);

-- name: commits_page
SELECT version, in_commit_timestamp, body_encoding, body
FROM dl_table_versions
WHERE table_id = :table_id AND version > :after AND version <= :upto
ORDER BY version
LIMIT :most;
