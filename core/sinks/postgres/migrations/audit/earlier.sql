-- What brings an audit that was made before versions were recorded to version 1, by the column that it lacks.

-- name: head
-- Earlier lines have no hash.
ALTER TABLE {schema}.slotkeeper_audit ADD COLUMN chain text NOT NULL DEFAULT '',
    ADD COLUMN head text NOT NULL DEFAULT ''
