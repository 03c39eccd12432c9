-- The statements on `slotkeeper_queries`: what DataFrame queries say of themselves. Nothing rests on it.

-- name: exists
-- Whether the table is there: CREATE TABLE IF NOT EXISTS asks for the right to create even then.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_queries'

-- name: newest
-- The epoch of a slot's rows.
SELECT max(epoch) FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: go_on
-- A query that is started again: what it has said is still so, and as old as it is.
UPDATE {schema}.slotkeeper_queries SET epoch = %(epoch)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: end
-- An earlier query's account: its slot starts over, or its rows were deleted, and epochs started over.
DELETE FROM {schema}.slotkeeper_queries
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND (%(fresh)s OR epoch > %(epoch)s)

-- name: begin
-- A row for a query's epoch, where there is none.
INSERT INTO {schema}.slotkeeper_queries
    (source, source_table, slot, epoch, query, name, batch, checkpoint, newest, updated_at)
SELECT %(source)s, %(source_table)s, %(slot)s, %(epoch)s, '', '', NULL, '', '', now()
WHERE NOT EXISTS (SELECT 1 FROM {schema}.slotkeeper_queries
    WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s)

-- name: write
-- Hits no row where another query has begun since.
UPDATE {schema}.slotkeeper_queries
SET query = %(query)s, name = %(name)s, batch = %(batch)s, checkpoint = %(checkpoint)s, newest = %(newest)s,
    updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s

-- name: read
-- The account of a slot's query, and how old it is by this server's clock.
SELECT epoch, query, name, batch, checkpoint, newest, extract(epoch FROM clock_timestamp() - updated_at)::float8
FROM {schema}.slotkeeper_queries
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
