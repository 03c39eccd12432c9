-- Statements on `slotkeeper_streams`: the Spark query that writes to a target, and its last batch.

-- name: exists
-- Whether a table of Slotkeeper exists.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = %(name)s

-- name: last
-- The query that writes to a target, and its last batch.
SELECT query, batch, host, os_user FROM {schema}.slotkeeper_streams WHERE target = %(target)s

-- name: elsewhere
-- The writers of a table of this name in other servers, or in one server under another address.
SELECT target, query FROM {schema}.slotkeeper_streams
WHERE target <> %(target)s AND right(target, length(%(name)s) + 1) = '.' || %(name)s

-- name: fence
-- Matches one row, or no row if the batch is already committed or another query writes to the target. If two queries
-- start at once, one of them waits here for the other's transaction (PostgreSQL, INSERT, ON CONFLICT: one of both
-- outcomes is guaranteed).
INSERT INTO {schema}.slotkeeper_streams AS s (target, query, batch, rows, host, os_user, pid, updated_at)
VALUES (%(target)s, %(query)s, %(batch)s, %(rows)s, %(host)s, %(os_user)s, %(pid)s, now())
ON CONFLICT (target) DO UPDATE
SET query = EXCLUDED.query, batch = EXCLUDED.batch, rows = s.rows + EXCLUDED.rows, host = EXCLUDED.host,
    os_user = EXCLUDED.os_user, pid = EXCLUDED.pid, updated_at = EXCLUDED.updated_at
WHERE s.query = EXCLUDED.query AND s.batch < EXCLUDED.batch
   OR s.query = %(successor_of)s AND s.query <> EXCLUDED.query

-- name: claim
-- Takes a target over from the query whose id has a given beginning, and returns its last batch; no row if there is none.
-- Later batches of that query no longer match the fence.
UPDATE {schema}.slotkeeper_streams
SET query = %(query)s, host = %(host)s, os_user = %(os_user)s, pid = %(pid)s, updated_at = now()
WHERE target = %(target)s AND left(query, length(%(of)s)) = %(of)s
RETURNING batch

-- name: planned
-- The plan of a target in another server, which its last batch left or which is being carried out.
SELECT plan FROM {schema}.slotkeeper_streams WHERE target = %(target)s

-- name: plan
-- As `fence`, for a target in another server: matches a row only if it has no plan. Batch -1: nothing is committed yet.
INSERT INTO {schema}.slotkeeper_streams AS s (target, query, batch, rows, host, os_user, pid, updated_at, plan)
VALUES (%(target)s, %(query)s, -1, 0, %(host)s, %(os_user)s, %(pid)s, now(), %(plan)s)
ON CONFLICT (target) DO UPDATE
SET query = EXCLUDED.query, batch = CASE WHEN s.query = EXCLUDED.query THEN s.batch ELSE -1 END, plan = EXCLUDED.plan,
    host = EXCLUDED.host, os_user = EXCLUDED.os_user, pid = EXCLUDED.pid, updated_at = EXCLUDED.updated_at
WHERE s.plan IS NULL AND (s.query = EXCLUDED.query AND s.batch < %(batch)s
   OR s.query = %(successor_of)s AND s.query <> EXCLUDED.query)

-- name: swap_plan
-- Arms, withdraws or settles a plan; no row if another process has done so.
UPDATE {schema}.slotkeeper_streams
SET plan = %(new)s, batch = coalesce(%(batch)s, batch), rows = rows + %(rows)s, updated_at = now()
WHERE target = %(target)s AND plan = %(old)s

-- name: job
-- The job that writes to a target, according to its progress rows, in which the target's name includes the database.
SELECT job, source_table, slot FROM {schema}.slotkeeper_progress
WHERE target IN (%(target)s, current_database() || '.' || %(target)s)
   OR left(target, length(%(target)s) + 2) = %(target)s || ' ['
   OR left(target, length(current_database() || %(target)s) + 3) = current_database() || '.' || %(target)s || ' ['
LIMIT 1

-- name: query
-- The query that writes to a target with this name.
SELECT query, batch FROM {schema}.slotkeeper_streams WHERE %(target)s IN (target, current_database() || '.' || target)

-- name: take_target
-- The lock that a running job holds on its target; held only for this transaction.
SELECT pg_advisory_xact_lock(%(lock)s)

-- name: limit_wait
-- Limits the wait for a lock, if the server has such a limit.
SELECT set_config(name, %(limit)s, true) FROM pg_settings WHERE name = 'lock_timeout'

-- name: places
-- The staging tables of a target, regardless of its earlier columns, with their sizes in bytes.
SELECT c.relname, pg_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relkind = 'r' AND left(c.relname, length(%(prefix)s)) = %(prefix)s
