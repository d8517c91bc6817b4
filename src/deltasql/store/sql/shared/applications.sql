-- name: txns_at
SELECT t.app_id, t.txn_version, t.last_updated, t.version
FROM dl_txn_actions AS t
JOIN (
    SELECT app_key, max(version) AS version
    FROM dl_txn_actions
    WHERE table_id = :table_id AND version <= :version
    GROUP BY app_key
) AS latest ON latest.app_key = t.app_key AND latest.version = t.version
WHERE t.table_id = :table_id
ORDER BY t.app_id;

-- name: domains_at
SELECT d.domain, d.configuration
FROM dl_domain_metadata AS d
JOIN (
    SELECT domain_key, max(version) AS version
    FROM dl_domain_metadata
    WHERE table_id = :table_id AND version <= :version
    GROUP BY domain_key
) AS latest ON latest.domain_key = d.domain_key AND latest.version = d.version
WHERE d.table_id = :table_id AND NOT d.removed
ORDER BY d.domain;
