-- Differs: a BLOB's length is its octet_length here.

-- name: browse_growth
SELECT v.version, v.body_encoding, CASE WHEN octet_length(v.body) <= :largest THEN v.body END,
       (SELECT count(*) FROM dl_dead_files AS d
        WHERE d.table_id = v.table_id AND d.removed_version = v.version
          AND d.version IS NOT NULL),
       (SELECT coalesce(sum(d.size_bytes), 0) FROM dl_dead_files AS d
        WHERE d.table_id = v.table_id AND d.removed_version = v.version
          AND d.version IS NOT NULL)
FROM dl_table_versions AS v
WHERE v.table_id = :table_id AND v.version < :before
ORDER BY v.version DESC
LIMIT :most;
