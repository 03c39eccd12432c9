-- A sweep's statements: the lanes of one slot are given as arrays of tables and shards.

-- name: rows
-- The rows of several lanes, as `row` in tables.sql returns one.
SELECT source_table, shard, node_id, target, position, epoch, changes, state, noted_start, noted_end, channel,
       fingerprint, registered, decided, decided_token, decided_rows, repeats
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND slot = %(slot)s
  AND (source_table, shard) IN (SELECT * FROM unnest(%(tables)s::text[], %(shards)s::text[]))

-- name: fences
-- The fence of each step, as `fence` in tables.sql. PostgreSQL, "SELECT", "The Locking Clause": with SKIP LOCKED, "any
-- selected rows that cannot be immediately locked are skipped", and a row that was updated meanwhile is locked only if
-- its new version still satisfies the conditions.
SET LOCAL lock_timeout = %(lock_ms)s;
WITH wanted AS (
    SELECT * FROM unnest(%(tables)s::text[], %(shards)s::text[], %(epochs)s::bigint[], %(afters)s::text[],
                         %(news)s::text[], %(rows)s::bigint[]) w(source_table, shard, epoch, after, new, rows)
), free AS MATERIALIZED (
    SELECT w.source_table, w.shard, w.new, w.rows
    FROM {schema}.slotkeeper_progress p JOIN wanted w ON p.source_table = w.source_table AND p.shard = w.shard
    WHERE p.source = %(source)s AND p.slot = %(slot)s AND p.epoch = w.epoch AND p.position = w.after
      AND p.state IN ('catching up', 'running') AND p.decided IS NULL
    FOR UPDATE OF p SKIP LOCKED
)
UPDATE {schema}.slotkeeper_progress p SET position = f.new, changes = p.changes + f.rows, updated_at = now()
FROM free f
WHERE p.source = %(source)s AND p.slot = %(slot)s AND p.source_table = f.source_table AND p.shard = f.shard
RETURNING p.source_table, p.shard
