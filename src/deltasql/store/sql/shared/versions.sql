-- name: state_get
SELECT v.version, v.in_commit_timestamp,
       m.version, m.action, m.stats_columns,
       p.version, p.action
FROM dl_table_versions AS v
JOIN dl_metadata_updates AS m
  ON m.table_id = v.table_id AND m.version = (
      SELECT max(version) FROM dl_metadata_updates
      WHERE table_id = v.table_id AND version <= v.version)
JOIN dl_protocol_updates AS p
  ON p.table_id = v.table_id AND p.version = (
      SELECT max(version) FROM dl_protocol_updates
      WHERE table_id = v.table_id AND version <= v.version)
WHERE v.table_id = :table_id AND v.version = :version
  -- Those before have expired; a table that is being loaded has no head yet.
  AND v.version >= coalesce(
      (SELECT earliest_version FROM dl_table_heads WHERE table_id = v.table_id), 0);

-- name: state_get_current
SELECT v.version, v.in_commit_timestamp,
       m.version, m.action, m.stats_columns,
       p.version, p.action
FROM dl_table_heads AS h
JOIN dl_table_versions AS v ON v.table_id = h.table_id AND v.version = h.current_version
JOIN dl_metadata_updates AS m ON m.table_id = h.table_id AND m.version = h.metadata_version
JOIN dl_protocol_updates AS p ON p.table_id = h.table_id AND p.version = h.protocol_version
WHERE h.table_id = :table_id;

-- name: version_at
SELECT version
FROM dl_table_versions
WHERE table_id = :table_id AND in_commit_timestamp <= :timestamp
ORDER BY in_commit_timestamp DESC
LIMIT 1;

-- name: commits_between
SELECT version, in_commit_timestamp, body_encoding, body
FROM dl_table_versions
WHERE table_id = :table_id AND version > :after AND version <= :upto
ORDER BY version;

-- name: versions_history
SELECT table_id, version, commit_id, in_commit_timestamp, committer, operation,
       operation_params, transaction_id, is_blind_append, digest
FROM dl_table_versions
WHERE table_id = :table_id
ORDER BY version DESC
LIMIT :most;

-- name: versions_digests
SELECT version, digest
FROM dl_table_versions
WHERE table_id = :table_id AND version > :after
ORDER BY version
LIMIT :most;

-- name: versions_audit
SELECT t.name,
       v.table_id, v.version, v.commit_id, v.in_commit_timestamp, v.committer, v.operation,
       v.operation_params, v.transaction_id, v.is_blind_append, v.digest
FROM dl_table_versions AS v
JOIN dl_tables AS t ON t.table_id = v.table_id
WHERE v.in_commit_timestamp >= :start AND v.in_commit_timestamp < :stop
  -- Tables that are still being loaded have neither a place nor a time of dropping.
  AND (t.dropped_id = 0 OR t.dropped_at IS NOT NULL)
  AND (v.in_commit_timestamp, v.table_id, v.version) > (:after_time, :after_table, :after_version)
ORDER BY v.in_commit_timestamp, v.table_id, v.version
LIMIT :most;

-- name: commit_find
SELECT version, in_commit_timestamp
FROM dl_table_versions
WHERE table_id = :table_id AND commit_id = :commit_id;

-- name: created_find
SELECT t.table_id
FROM dl_tables AS t
JOIN dl_table_versions AS v ON v.table_id = t.table_id AND v.version = 0
WHERE v.commit_id = :commit_id;
