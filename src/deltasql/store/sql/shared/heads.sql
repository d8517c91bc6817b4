-- name: head_get
SELECT table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version
FROM dl_table_heads
WHERE table_id = :table_id;

-- name: head_create
INSERT INTO dl_table_heads
    (table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version)
VALUES (:table_id, 0, :ict, 0, 0, 0);

-- name: heads_all
SELECT table_id, current_version, last_ict, earliest_version, metadata_version, protocol_version
FROM dl_table_heads;
