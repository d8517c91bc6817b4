-- Differs: several claim at the same time, and what another one is claiming is passed over.

-- name: bin_claim
UPDATE dl_optimize_bins
SET claimed_by = :claimed_by, claimed_until = @in_ms(:milliseconds)
WHERE bin_id = (
    SELECT bin_id FROM dl_optimize_bins
    WHERE table_id = :table_id AND settings = :settings
      AND (claimed_until IS NULL OR claimed_until < @now)
    ORDER BY bin_id LIMIT 1
    FOR UPDATE SKIP LOCKED)
RETURNING bin_id, files;
