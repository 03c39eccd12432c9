-- Statements on `slotkeeper_queries`, the reports of DataFrame queries. They are for information only.

-- name: exists
-- Whether the table exists; CREATE TABLE IF NOT EXISTS requires the privilege to create tables even if it does.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_queries'

-- name: newest
-- The epoch of a slot's rows.
SELECT max(epoch) FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: go_on
-- A query that is restarted: its reports remain valid and keep their age.
UPDATE {schema}.slotkeeper_queries SET epoch = %(epoch)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: end
-- Removes the report of an earlier query whose slot starts over, or whose rows were deleted so that epochs started
-- over.
DELETE FROM {schema}.slotkeeper_queries
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND (%(fresh)s OR epoch > %(epoch)s)

-- name: begin
-- Inserts a row for a query's epoch, if it does not exist.
INSERT INTO {schema}.slotkeeper_queries
    (source, source_table, slot, epoch, query, name, batch, checkpoint, newest, updated_at)
SELECT %(source)s, %(source_table)s, %(slot)s, %(epoch)s, '', '', NULL, '', '', now()
WHERE NOT EXISTS (SELECT 1 FROM {schema}.slotkeeper_queries
    WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s)

-- name: write
-- Matches no row if another query has started since.
UPDATE {schema}.slotkeeper_queries
SET query = %(query)s, name = %(name)s, batch = %(batch)s, checkpoint = %(checkpoint)s, newest = %(newest)s,
    updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s

-- name: read
-- The report of a slot's query, and its age by this server's clock.
SELECT epoch, query, name, batch, checkpoint, newest, extract(epoch FROM clock_timestamp() - updated_at)::float8
FROM {schema}.slotkeeper_queries
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
