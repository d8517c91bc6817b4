-- Namespaces: see store/namespaces.py.

-- name: namespaces_all
SELECT name, properties FROM dl_namespaces ORDER BY name;

-- name: namespace_create
INSERT INTO dl_namespaces (name, properties)
VALUES (:name, :properties)
ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: namespace_describe
INSERT INTO dl_namespaces (name, properties)
VALUES (:name, :properties)
ON CONFLICT (name) DO UPDATE SET properties = excluded.properties
RETURNING name;

-- name: namespaces_drop
DELETE FROM dl_namespaces
WHERE name = :name
   OR substr(name, 1, length(CAST(:below AS text))) = CAST(:below AS text)
RETURNING name;
