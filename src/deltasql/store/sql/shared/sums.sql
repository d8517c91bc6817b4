-- Tables and versions in numbers: see store/browsing. Files with a deletion vector come in groups
-- of their own: how many of their rows are deleted is inside its JSON.

-- name: sums_live
SELECT deletion_vector, count(*), @part(summed_bytes), sum(num_records),
       count(num_records)
FROM dl_active_files
WHERE table_id = :table_id
GROUP BY deletion_vector;

-- name: sums_partitions
SELECT count(DISTINCT partition_key) FROM dl_active_files WHERE table_id = :table_id;

-- name: sums_old
-- Files that no live version has, and that vacuum has not deleted yet.
SELECT count(*), @part(summed_bytes)
FROM (
    SELECT f.path_key, max(f.size_bytes) AS size_bytes
    FROM dl_dead_files AS f
    WHERE f.table_id = :table_id AND f.version IS NOT NULL
      AND NOT EXISTS (
          SELECT 1 FROM dl_active_files AS a
          WHERE a.table_id = :table_id AND a.path_key = f.path_key)
      AND NOT EXISTS (
          SELECT 1 FROM dl_vacuum_files AS j
          WHERE j.table_id = :table_id AND j.path_key = f.path_key
            AND j.deleted_at IS NOT NULL AND j.at_version >= f.removed_version)
    GROUP BY f.path_key
) AS old;

-- name: sums_added
SELECT version, deletion_vector, count(*), @part(summed_bytes),
       sum(CASE WHEN data_change THEN num_records END)
FROM (
    SELECT version, deletion_vector, size_bytes, num_records, data_change
    FROM dl_active_files
    WHERE table_id = :table_id AND version BETWEEN :first AND :last
    UNION ALL
    SELECT version, deletion_vector, size_bytes, num_records, data_change
    FROM dl_dead_files
    WHERE table_id = :table_id AND removed_version > :first AND version BETWEEN :first AND :last
) AS added
GROUP BY version, deletion_vector;

-- name: sums_removed
SELECT removed_version, deletion_vector, count(*), @part(summed_bytes),
       sum(CASE WHEN remove_data_change THEN num_records END)
FROM dl_dead_files
WHERE table_id = :table_id AND removed_version BETWEEN :first AND :last
GROUP BY removed_version, deletion_vector;

-- name: sums_restated
-- Files that a version took away and has again, under another deletion vector: the rows that stay
-- were neither added nor removed.
SELECT d.removed_version, a.deletion_vector, a.num_records
FROM dl_dead_files AS d
JOIN (
    SELECT version, path_key, deletion_vector, num_records, data_change
    FROM dl_active_files
    WHERE table_id = :table_id AND version BETWEEN :first AND :last
      AND deletion_vector IS NOT NULL
    UNION ALL
    SELECT version, path_key, deletion_vector, num_records, data_change
    FROM dl_dead_files
    WHERE table_id = :table_id AND removed_version > :first AND version BETWEEN :first AND :last
      AND deletion_vector IS NOT NULL
) AS a ON a.version = d.removed_version AND a.path_key = d.path_key
WHERE d.table_id = :table_id AND d.removed_version BETWEEN :first AND :last
  AND a.data_change;
