-- What optimize has to do, and where it put rows: see store/optimizing.

-- name: bin_add
INSERT INTO dl_optimize_bins
    (bin_id, table_id, settings, files, size_bytes, created_at, expires_at)
VALUES (:bin_id, :table_id, :settings, :files, :size_bytes, @now, @in_ms(:milliseconds))
RETURNING bin_id;

-- name: bins_of
SELECT files FROM dl_optimize_bins WHERE table_id = :table_id AND expires_at >= @now;

-- name: bins_sweep
DELETE FROM dl_optimize_bins WHERE expires_at < @now
RETURNING bin_id;

-- name: bins_keep
UPDATE dl_optimize_bins SET expires_at = @in_ms(:milliseconds)
WHERE table_id = :table_id AND settings = :settings
RETURNING bin_id;

-- name: bin_claim
UPDATE dl_optimize_bins
SET claimed_by = :claimed_by, claimed_until = @in_ms(:milliseconds)
WHERE bin_id = (
    SELECT bin_id FROM dl_optimize_bins
    WHERE table_id = :table_id AND settings = :settings
      AND (claimed_until IS NULL OR claimed_until < @now)
    ORDER BY bin_id LIMIT 1)
RETURNING bin_id, files;

-- name: bin_renew
UPDATE dl_optimize_bins
SET claimed_until = @in_ms(:milliseconds), expires_at = @in_ms(:milliseconds)
WHERE bin_id = :bin_id AND claimed_by = :claimed_by
RETURNING bin_id;

-- name: bin_done
DELETE FROM dl_optimize_bins WHERE bin_id = :bin_id AND claimed_by = :claimed_by
RETURNING bin_id;

-- name: moved_rows_add
INSERT INTO dl_moved_rows (table_id, version, row_counts, created_at)
VALUES (:table_id, :version, :row_counts, @now)
RETURNING version;

-- name: moved_rows_get
SELECT row_counts FROM dl_moved_rows WHERE table_id = :table_id AND version = :version;

-- name: moved_rows_expire
DELETE FROM dl_moved_rows WHERE table_id = :table_id AND created_at < @in_ms(:milliseconds)
RETURNING version;

-- name: row_order_add
INSERT INTO dl_row_orders (table_id, version, row_counts, row_order, created_at)
VALUES (:table_id, :version, :row_counts, :row_order, @now)
RETURNING version;

-- name: row_order_get
SELECT row_counts, row_order FROM dl_row_orders
WHERE table_id = :table_id AND version = :version;

-- name: row_orders_expire
DELETE FROM dl_row_orders WHERE table_id = :table_id AND created_at < @in_ms(:milliseconds)
RETURNING version;

-- name: purge_optimize_bins
DELETE FROM dl_optimize_bins WHERE table_id = :table_id;

-- name: purge_moved_rows
DELETE FROM dl_moved_rows WHERE table_id = :table_id;

-- name: purge_row_orders
DELETE FROM dl_row_orders WHERE table_id = :table_id;
