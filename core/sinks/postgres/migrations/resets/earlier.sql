-- What brings resets that were made before versions were recorded to version 1, by the column that they lack.

-- name: epoch
-- Of earlier resets it is not known whether a start followed them.
ALTER TABLE {schema}.slotkeeper_resets ADD COLUMN epoch bigint
