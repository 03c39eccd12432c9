-- The statements on slotkeeper_columns: which columns a source table had when its target was last in line with it.

-- name: exists
-- Whether the table is there: CREATE TABLE IF NOT EXISTS asks for the right to create even then.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_columns'

-- name: read
-- The columns of the table with this fingerprint.
SELECT columns FROM {schema}.slotkeeper_columns
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND fingerprint = %(fingerprint)s

-- name: forget
-- Those of older fingerprints: the rows have another by now.
DELETE FROM {schema}.slotkeeper_columns
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND columns <> %(columns)s

-- name: note
-- A fingerprint's columns never change, so it does not matter which start writes them.
INSERT INTO {schema}.slotkeeper_columns (source, source_table, slot, fingerprint, columns)
SELECT %(source)s, %(source_table)s, %(slot)s, %(fingerprint)s, %(columns)s
WHERE NOT EXISTS (SELECT 1 FROM {schema}.slotkeeper_columns
    WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND fingerprint = %(fingerprint)s)

-- name: empty
-- All lanes as a reset to snapshot leaves them, under the epoch: the next start registers and copies again. What was decided at
-- a separate sink is abandoned; the sink may have it, so it counts as repeated. A row without a registration stays.
-- What a reset has said for this copy is kept: it was said for a copy that has not ended.
UPDATE {schema}.slotkeeper_progress
SET position = '', state = 'creating', noted_start = NULL, noted_end = NULL, fingerprint = %(fingerprint)s, updated_at = now(),
    repeats = repeats + coalesce(decided_rows, 0), decided = NULL, decided_token = NULL, decided_rows = NULL,
    copying = CASE WHEN state = 'creating' THEN copying
                   WHEN state = 'copying' AND copying = 'merge' THEN 'next merge'
                   WHEN state = 'copying' AND copying = 'shadow' THEN 'next replace' END,
    chunks = NULL
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s
  AND registered IS NOT NULL
