-- name: browse_tables
SELECT t.table_id, t.name, t.location, t.read_only_reason, t.mirror_paused, t.properties,
       h.current_version, h.last_ict, h.earliest_version,
       l.mirrored_version, l.total_files, l.total_bytes
FROM dl_tables AS t
JOIN dl_table_heads AS h ON h.table_id = t.table_id
LEFT JOIN dl_mirror_leases AS l ON l.table_id = t.table_id AND l.work = 'COMMITS'
WHERE t.dropped_id = 0 AND t.name > :after AND lower(t.name) LIKE :pattern ESCAPE '!'
  AND @part(in_schemas)
ORDER BY t.name
LIMIT :most;

-- name: browse_table
SELECT t.table_id, t.name, t.location, t.read_only_reason, t.mirror_paused, t.properties,
       h.current_version, h.last_ict, h.earliest_version,
       l.mirrored_version, l.total_files, l.total_bytes
FROM dl_tables AS t
JOIN dl_table_heads AS h ON h.table_id = t.table_id
LEFT JOIN dl_mirror_leases AS l ON l.table_id = t.table_id AND l.work = 'COMMITS'
WHERE t.dropped_id = 0 AND t.name = :name;

-- name: browse_summary
SELECT count(*), coalesce(sum(h.current_version - h.earliest_version + 1), 0),
       coalesce(sum(l.total_files), 0), coalesce(sum(l.total_bytes), 0), coalesce(max(h.last_ict), 0)
FROM dl_tables AS t
JOIN dl_table_heads AS h ON h.table_id = t.table_id
LEFT JOIN dl_mirror_leases AS l ON l.table_id = t.table_id AND l.work = 'COMMITS'
WHERE t.dropped_id = 0;

-- part: in_schemas
(:schemas = '' OR instr(:schemas, CASE WHEN instr(t.name, '.') > 0
    THEN '.' || substr(t.name, 1, instr(t.name, '.')) ELSE '.default.' END) > 0)

-- name: browse_behind
SELECT t.name, t.properties, t.mirror_paused,
       -- What a bridge left out below is no lag: readers see newer versions.
       count(CASE WHEN NOT s.json_written AND s.version > CASE WHEN n.json_written THEN n.version ELSE -1 END
                  THEN 1 END),
       min(v.in_commit_timestamp),
       max(CASE WHEN s.status = 'FAILED' THEN 1 ELSE 0 END), max(s.error_message)
FROM dl_mirror_status AS s
JOIN dl_tables AS t ON t.table_id = s.table_id AND t.dropped_id = 0
JOIN dl_table_versions AS v ON v.table_id = s.table_id AND v.version = s.version
LEFT JOIN dl_mirror_leases AS l ON l.table_id = s.table_id AND l.work = 'COMMITS'
LEFT JOIN dl_mirror_status AS n ON n.table_id = l.table_id AND n.version = l.mirrored_version
WHERE (s.status = 'FAILED'
   OR s.status <> 'SUCCESS' AND NOT s.json_written
      AND s.version > CASE WHEN n.json_written THEN n.version ELSE -1 END)
  AND (CAST(:name AS text) = '' OR t.name = CAST(:name AS text))
  AND @part(in_schemas)
GROUP BY t.name, t.properties, t.mirror_paused
ORDER BY min(v.in_commit_timestamp)
LIMIT :most;

-- name: browse_versions
SELECT v.table_id, v.version, v.commit_id, v.in_commit_timestamp, v.committer, v.operation,
       v.operation_params, v.transaction_id, v.is_blind_append, v.digest,
       s.status, s.json_written, s.checkpoint_written, s.error_message, s.retry_count,
       @ms(s.mirrored_at)
FROM dl_table_versions AS v
LEFT JOIN dl_mirror_status AS s ON s.table_id = v.table_id AND s.version = v.version
WHERE v.table_id = :table_id AND v.version < :before
ORDER BY v.version DESC
LIMIT :most;

-- part: body_length
length(v.body)

-- name: browse_growth
-- What a version added is in its body; one that is too large to be looked at in passing stays out.
SELECT v.version, v.body_encoding, CASE WHEN @part(body_length) <= :largest THEN v.body END,
       (SELECT count(*) FROM dl_dead_files AS d
        WHERE d.table_id = v.table_id AND d.removed_version = v.version
          AND d.version IS NOT NULL),
       (SELECT @part(summed_bytes) FROM dl_dead_files AS d
        WHERE d.table_id = v.table_id AND d.removed_version = v.version
          AND d.version IS NOT NULL)
FROM dl_table_versions AS v
WHERE v.table_id = :table_id AND v.version < :before
ORDER BY v.version DESC
LIMIT :most;

-- name: browse_audit
SELECT t.name,
       v.table_id, v.version, v.commit_id, v.in_commit_timestamp, v.committer, v.operation,
       v.operation_params, v.transaction_id, v.is_blind_append, v.digest
FROM dl_tables AS t
JOIN dl_table_versions AS v ON v.table_id = t.table_id
WHERE v.in_commit_timestamp >= :start
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
FROM dl_tables AS t
JOIN dl_table_versions AS v ON v.table_id = t.table_id
WHERE v.in_commit_timestamp >= :start AND v.in_commit_timestamp < :stop
  AND v.transaction_id = :transaction_id
  AND (t.dropped_id = 0 OR t.dropped_at IS NOT NULL)
  AND @part(in_schemas)
ORDER BY t.name, v.version
LIMIT :most;

-- name: browse_activity
SELECT v.in_commit_timestamp - v.in_commit_timestamp % :bucket, count(*)
FROM dl_tables AS t
JOIN dl_table_versions AS v ON v.table_id = t.table_id
WHERE v.in_commit_timestamp >= :start AND v.in_commit_timestamp < :stop
  AND t.dropped_id = 0
GROUP BY v.in_commit_timestamp - v.in_commit_timestamp % :bucket
ORDER BY 1;

-- part: browse_live_at
table_id = :table_id AND version <= :version AND removed_version > :version

-- name: browse_files
-- Live at the version, in the order of the primary key; the newest version has no dead ones.
SELECT path, size_bytes, modification_time, partition_values, stats, num_records,
       deletion_vector, version
FROM (
    SELECT * FROM (
        SELECT path_key, path, size_bytes, modification_time, partition_values, stats,
               num_records, deletion_vector, version
        FROM dl_active_files
        WHERE table_id = :table_id AND path_key > :after AND version <= :version
        ORDER BY path_key
        LIMIT :most
    ) AS active
    UNION ALL
    SELECT * FROM (
        SELECT path_key, path, size_bytes, modification_time, partition_values, stats,
               num_records, deletion_vector, version
        FROM dl_dead_files
        WHERE @part(browse_live_at) AND path_key > :after
        ORDER BY path_key
        LIMIT :most
    ) AS dead
) AS live
ORDER BY path_key
LIMIT :most;

-- name: browse_partitions
-- The largest; how many there are comes along. A partition that rows were written to before there
-- was a table of them has its values in its files alone.
SELECT coalesce(p.partition_values, s.some_values), s.files, s.size_bytes, s.partitions
FROM (
    SELECT partition_key, min(partition_values) AS some_values, count(*) AS files,
           sum(size_bytes) AS size_bytes, count(*) OVER () AS partitions
    FROM dl_active_files
    WHERE table_id = :table_id
    GROUP BY partition_key
    ORDER BY sum(size_bytes) DESC, partition_key
    LIMIT :most
) AS s
LEFT JOIN dl_partitions AS p ON p.table_id = :table_id AND p.partition_key = s.partition_key
ORDER BY s.size_bytes DESC, s.partition_key;

-- name: mirror_landed
SELECT s.version, @ms(s.mirrored_at) - v.in_commit_timestamp
FROM dl_mirror_status AS s
JOIN dl_table_versions AS v ON v.table_id = s.table_id AND v.version = s.version
WHERE s.table_id = :table_id AND s.version > :after AND s.version <= :upto
  AND s.mirrored_at IS NOT NULL
ORDER BY s.version
LIMIT :most;
