-- What brings progress tables that were made before versions were recorded to version 1, by the column that they lack.

-- name: dns
-- Until a start writes it, rows do not tell of how many DNs they are.
ALTER TABLE {schema}.slotkeeper_progress ADD COLUMN IF NOT EXISTS dns integer

-- name: chunks
-- A copy that was begun before does not tell how it goes in, and is not guessed at.
ALTER TABLE {schema}.slotkeeper_progress ADD COLUMN copying text, ADD COLUMN chunks integer

-- name: decided
-- Nothing was ever decided at a sink beside these tables.
ALTER TABLE {schema}.slotkeeper_progress ADD COLUMN decided text, ADD COLUMN decided_token text,
    ADD COLUMN decided_rows bigint, ADD COLUMN repeats bigint NOT NULL DEFAULT 0;
ALTER TABLE {schema}.slotkeeper_chunks ADD COLUMN repeats bigint NOT NULL DEFAULT 0

-- name: fingerprint
-- Commit 41bb8e69 and before: the same text under another name.
ALTER TABLE {schema}.slotkeeper_progress RENAME COLUMN incarnation TO fingerprint

-- name: registered
-- Commit 41bb8e69 and before: both points and the xmin as numbers, now the dialect's text. A point alone is such a text.
ALTER TABLE {schema}.slotkeeper_progress ADD COLUMN registered text;
UPDATE {schema}.slotkeeper_progress
SET registered = registered_live || '/' || coalesce(registered_durable, 0) || '/' || coalesce(registered_xmin, 0)
WHERE registered_live IS NOT NULL;
ALTER TABLE {schema}.slotkeeper_progress ALTER COLUMN noted_start TYPE text USING noted_start::text,
    ALTER COLUMN noted_end TYPE text USING noted_end::text,
    DROP COLUMN registered_live, DROP COLUMN registered_durable, DROP COLUMN registered_xmin
