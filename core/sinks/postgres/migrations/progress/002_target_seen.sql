-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- What the last check knew of the target (docs/adr/0063). Until the first start of this version nothing is recorded.
ALTER TABLE {schema}.slotkeeper_progress ADD COLUMN IF NOT EXISTS target_seen text
