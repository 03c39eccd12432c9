-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- The plan of a batch whose sink is separate from this store (ADR 106): its number, rows, label and load.
ALTER TABLE {schema}.slotkeeper_streams ADD COLUMN IF NOT EXISTS plan text
