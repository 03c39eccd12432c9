-- Statements on slotkeeper_columns: the columns that a source table had when its target last matched it.

-- name: exists
-- Whether the table exists; CREATE TABLE IF NOT EXISTS requires the privilege to create tables even if it does.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_columns'

-- name: read
-- The columns of the table with this fingerprint.
SELECT columns FROM {schema}.slotkeeper_columns
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND fingerprint = %(fingerprint)s

-- name: forget
-- Removes the columns of older fingerprints, which no row has now.
DELETE FROM {schema}.slotkeeper_columns
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND columns <> %(columns)s

-- name: renew
-- A fingerprint does not contain the source's own description of a column (labels, character set, sign, NOT NULL), so
-- a new copy can have other columns with the same fingerprint.
DELETE FROM {schema}.slotkeeper_columns
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND fingerprint = %(fingerprint)s
  AND columns <> %(columns)s

-- name: note
-- Stored columns describe the rows after the lane's position, so a start that makes no copy does not replace them.
INSERT INTO {schema}.slotkeeper_columns (source, source_table, slot, fingerprint, columns)
SELECT %(source)s, %(source_table)s, %(slot)s, %(fingerprint)s, %(columns)s
WHERE NOT EXISTS (SELECT 1 FROM {schema}.slotkeeper_columns
    WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND fingerprint = %(fingerprint)s)

-- name: empty
-- Sets all lanes to the state that a reset to a snapshot leaves, under the epoch: the next start registers and copies
-- again. A range decided for a separate sink is abandoned; because the sink may have it, its rows count as repeats. A
-- row without a registration is unchanged. The consent of a reset for this copy is retained, because that copy has not
-- ended.
UPDATE {schema}.slotkeeper_progress
SET position = '', state = 'creating', noted_start = NULL, noted_end = NULL, fingerprint = %(fingerprint)s, updated_at = now(),
    repeats = repeats + coalesce(decided_rows, 0), decided = NULL, decided_token = NULL, decided_rows = NULL,
    copying = CASE WHEN state = 'creating' THEN copying
                   WHEN state = 'copying' AND copying = 'merge' THEN 'next merge'
                   WHEN state = 'copying' AND copying = 'shadow' THEN 'next replace' END,
    chunks = NULL
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s
  AND registered IS NOT NULL
