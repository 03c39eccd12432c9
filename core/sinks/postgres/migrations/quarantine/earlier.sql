-- What brings a quarantine that was made before versions were recorded to version 1, by the column that it lacks.

-- name: quarantined_at
-- Commit 41bb8e69 and before: the same under other names.
ALTER TABLE {schema}.slotkeeper_quarantine RENAME COLUMN held_at TO quarantined_at;
UPDATE {schema}.slotkeeper_quarantine SET state = 'quarantined' WHERE state = 'held'
