-- Differs: by committed_at as well, which is the same time and has an index over all tables. It
-- knows no time before 1970 and none so late that a timestamp can't hold it. And files that were
-- live at a version by the index of the intervals: by removed_version alone, all that died since
-- would be looked at and sorted. And `instr` is called strpos.

-- part: in_schemas
(:schemas::text = '' OR strpos(:schemas::text, CASE WHEN strpos(t.name, '.') > 0
    THEN '.' || substr(t.name, 1, strpos(t.name, '.')) ELSE '.default.' END) > 0)

-- name: browse_audit
SELECT t.name,
       v.table_id, v.version, v.commit_id, v.in_commit_timestamp, v.committer, v.operation,
       v.operation_params, v.transaction_id, v.is_blind_append, v.digest
FROM dl_table_versions AS v
JOIN dl_tables AS t ON t.table_id = v.table_id
WHERE v.committed_at >= to_timestamp(greatest(:start, 0) / 1000.0)
  AND v.committed_at <= to_timestamp(least(:stop, 9000000000000000) / 1000.0)
  AND v.in_commit_timestamp >= :start
  AND (v.in_commit_timestamp < :stop
       OR v.in_commit_timestamp = :stop AND v.table_id < :below)
  AND (t.dropped_id = 0 OR t.dropped_at IS NOT NULL)
  AND @part(in_schemas)
ORDER BY v.in_commit_timestamp DESC, v.table_id DESC
LIMIT :most;

-- name: browse_transaction
SELECT t.name,
       v.table_id, v.version, v.commit_id, v.in_commit_timestamp, v.committer, v.operation,
       v.operation_params, v.transaction_id, v.is_blind_append, v.digest
FROM dl_table_versions AS v
JOIN dl_tables AS t ON t.table_id = v.table_id
WHERE v.committed_at >= to_timestamp(greatest(:start, 0) / 1000.0)
  AND v.committed_at <= to_timestamp(least(:stop, 9000000000000000) / 1000.0)
  AND v.in_commit_timestamp >= :start AND v.in_commit_timestamp < :stop
  AND v.transaction_id = :transaction_id
  AND (t.dropped_id = 0 OR t.dropped_at IS NOT NULL)
  AND @part(in_schemas)
ORDER BY t.name, v.version
LIMIT :most;

-- name: browse_activity
SELECT v.in_commit_timestamp - v.in_commit_timestamp % :bucket, count(*)
FROM dl_table_versions AS v
JOIN dl_tables AS t ON t.table_id = v.table_id
WHERE v.committed_at >= to_timestamp(greatest(:start, 0) / 1000.0)
  AND v.committed_at <= to_timestamp(least(:stop, 9000000000000000) / 1000.0)
  AND v.in_commit_timestamp >= :start AND v.in_commit_timestamp < :stop
  AND t.dropped_id = 0
GROUP BY v.in_commit_timestamp - v.in_commit_timestamp % :bucket
ORDER BY 1;

-- part: browse_live_at
table_id = :table_id AND version IS NOT NULL
  AND int8range((table_id << 40) | version, (table_id << 40) | removed_version)
      @> ((:table_id::bigint << 40) | :version::bigint)
