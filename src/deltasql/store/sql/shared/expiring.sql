-- Versions that leave the history: see store/expiring. The versions before the oldest readable one
-- are nobody's any more, so that their rows go in batches that hold up no commit.

-- name: expire_horizon
-- The newest version with a checkpoint in the mirror, which lacks no commit file up to there: what
-- SQL forgets, readers of the mirror don't need, and nobody has to write again.
SELECT max(s.version)
FROM dl_mirror_status AS s
WHERE s.table_id = :table_id AND s.version <= :upto AND s.checkpoint_written
  AND s.version < coalesce(
      (SELECT min(o.version) FROM dl_mirror_status AS o
       WHERE o.table_id = :table_id AND o.status <> 'SUCCESS' AND NOT o.json_written),
      s.version + 1);

-- name: expire_head
UPDATE dl_table_heads SET earliest_version = :horizon
WHERE table_id = :table_id AND earliest_version < :horizon
RETURNING table_id;

-- name: expire_journal
INSERT INTO dl_expirations (table_id, horizon, first_version, committer, host, started_at)
VALUES (:table_id, :horizon, :first_version, :committer, :host, @now)
RETURNING horizon;

-- name: expire_end
UPDATE dl_expirations SET ended_at = @now
WHERE table_id = :table_id AND ended_at IS NULL
RETURNING horizon;

-- name: expire_trusted
DELETE FROM dl_trusted_versions WHERE table_id = :table_id
RETURNING version;

-- name: expire_txns
DELETE FROM dl_txn_actions
WHERE table_id = :table_id AND version < (
    SELECT max(n.version) FROM dl_txn_actions AS n
    WHERE n.table_id = :table_id AND n.app_key = dl_txn_actions.app_key
      AND n.version <= :horizon)
RETURNING version;

-- name: expire_domains
DELETE FROM dl_domain_metadata
WHERE table_id = :table_id AND version < (
    SELECT max(n.version) FROM dl_domain_metadata AS n
    WHERE n.table_id = :table_id AND n.domain_key = dl_domain_metadata.domain_key
      AND n.version <= :horizon)
RETURNING version;

-- name: expire_metadata
DELETE FROM dl_metadata_updates
WHERE table_id = :table_id AND version < (
    SELECT max(n.version) FROM dl_metadata_updates AS n
    WHERE n.table_id = :table_id AND n.version <= :horizon)
RETURNING version;

-- name: expire_protocol
DELETE FROM dl_protocol_updates
WHERE table_id = :table_id AND version < (
    SELECT max(n.version) FROM dl_protocol_updates AS n
    WHERE n.table_id = :table_id AND n.version <= :horizon)
RETURNING version;

-- name: expire_oldest_version
SELECT min(version) FROM dl_table_versions
WHERE table_id = :table_id AND version < (
    SELECT earliest_version FROM dl_table_heads WHERE table_id = :table_id);

-- name: expire_oldest_removal
SELECT min(removed_version) FROM dl_dead_files
WHERE table_id = :table_id AND removed_version > :after AND removed_version <= (
    SELECT earliest_version FROM dl_table_heads WHERE table_id = :table_id);

-- name: expire_versions
DELETE FROM dl_table_versions
WHERE table_id = :table_id AND version < :upto AND version < (
    SELECT earliest_version FROM dl_table_heads WHERE table_id = :table_id)
RETURNING version;

-- name: expire_status
-- After the versions: a version without a status would be mirrored again.
DELETE FROM dl_mirror_status
WHERE table_id = :table_id AND version < (
    SELECT min(version) FROM dl_table_versions WHERE table_id = :table_id)
RETURNING version;

-- name: expire_dead
-- Files that vacuum has deleted, and those elsewhere, which it never does: the table that they
-- belong to waits for this one to forget them. The others are its to find; and so long as a
-- checkpoint repeats that a file was removed, that is kept.
DELETE FROM dl_dead_files
WHERE table_id = :table_id AND removed_version BETWEEN :first AND :last
  AND removed_version <= (
      SELECT earliest_version FROM dl_table_heads WHERE table_id = :table_id)
  AND coalesce(deletion_timestamp, 0) <= :tombstones
  AND (path LIKE '/%' OR path LIKE '%:/%' OR EXISTS (
      SELECT 1 FROM dl_vacuum_files AS j
      WHERE j.table_id = dl_dead_files.table_id AND j.path_key = dl_dead_files.path_key
        AND j.deleted_at IS NOT NULL AND j.at_version >= dl_dead_files.removed_version))
RETURNING removed_version;

-- name: expire_changes
DELETE FROM dl_cdc_files
WHERE table_id = :table_id AND version < (
      SELECT earliest_version FROM dl_table_heads WHERE table_id = :table_id)
  AND EXISTS (
      SELECT 1 FROM dl_vacuum_files AS j
      WHERE j.table_id = dl_cdc_files.table_id AND j.kind = 'CHANGE'
        AND j.path = dl_cdc_files.path AND j.deleted_at IS NOT NULL)
RETURNING version;

-- name: expire_deletions
-- What vacuum deleted, some at a time, once no row names it that vacuum would find again: a data file
-- by its path, changes and vectors by versions that have all gone.
DELETE FROM dl_vacuum_files
WHERE (vacuum_id, path_key) IN (
    SELECT j.vacuum_id, j.path_key
    FROM dl_vacuum_files AS j
    WHERE j.table_id = :table_id AND j.deleted_at < @in_ms(:kept)
      AND NOT EXISTS (
          SELECT 1 FROM dl_dead_files AS f
          WHERE f.table_id = :table_id AND f.path_key = j.path_key)
      AND (j.kind NOT IN ('CHANGE', 'VECTOR') OR j.at_version < (
          SELECT earliest_version FROM dl_table_heads WHERE table_id = :table_id))
      AND (j.kind <> 'VECTOR' OR NOT EXISTS (
          SELECT 1 FROM dl_dead_files AS f
          WHERE f.table_id = :table_id AND f.deletion_vector IS NOT NULL
            AND f.removed_version <= j.at_version))
    LIMIT :most)
RETURNING path;

-- name: expire_vacuums
DELETE FROM dl_vacuums
WHERE table_id = :table_id AND ended_at < @in_ms(:kept)
  AND NOT EXISTS (
      SELECT 1 FROM dl_vacuum_files AS j WHERE j.vacuum_id = dl_vacuums.vacuum_id)
RETURNING vacuum_id;

-- name: expirations_all
SELECT e.table_id, t.name, e.horizon, e.first_version, e.committer, e.host, @ms(e.started_at),
       @ms(e.ended_at)
FROM dl_expirations AS e
LEFT JOIN dl_tables AS t ON t.table_id = e.table_id
ORDER BY e.started_at, e.table_id, e.horizon;
