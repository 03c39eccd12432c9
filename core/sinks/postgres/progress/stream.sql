-- The statements on `slotkeeper_streams`: which Spark query writes a target, and its last batch.

-- name: exists
-- Whether an own table exists.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = %(name)s

-- name: last
-- Who writes a target, and how far it is there.
SELECT query, batch, host, os_user FROM {schema}.slotkeeper_streams WHERE target = %(target)s

-- name: fence
-- Hits one row, or none where the batch is there already or another query writes the target. Of two that begin at once
-- one waits here for the other's transaction (PostgreSQL, INSERT, ON CONFLICT: one of both outcomes is guaranteed).
INSERT INTO {schema}.slotkeeper_streams AS s (target, query, batch, rows, host, os_user, pid, updated_at)
VALUES (%(target)s, %(query)s, %(batch)s, %(rows)s, %(host)s, %(os_user)s, %(pid)s, now())
ON CONFLICT (target) DO UPDATE
SET query = EXCLUDED.query, batch = EXCLUDED.batch, rows = s.rows + EXCLUDED.rows, host = EXCLUDED.host,
    os_user = EXCLUDED.os_user, pid = EXCLUDED.pid, updated_at = EXCLUDED.updated_at
WHERE s.query = EXCLUDED.query AND s.batch < EXCLUDED.batch OR s.query = %(successor_of)s

-- name: job
-- The job that has a target, by its progress rows, which name it with its database.
SELECT job, source_table, slot FROM {schema}.slotkeeper_progress
WHERE target = current_database() || '.' || %(target)s LIMIT 1

-- name: query
-- The query that writes a target which is named so.
SELECT query, batch FROM {schema}.slotkeeper_streams WHERE current_database() || '.' || target = %(target)s

-- name: take_target
-- The lock that a running job has on its target; for this transaction only.
SELECT pg_advisory_xact_lock(%(lock)s)

-- name: limit_wait
-- How long a lock is waited for, where the server has such a limit.
SELECT set_config(name, %(limit)s, true) FROM pg_settings WHERE name = 'lock_timeout'

-- name: places
-- The staging tables of a target, whatever its columns were.
SELECT tablename FROM pg_tables WHERE schemaname = %(schema)s AND left(tablename, length(%(prefix)s)) = %(prefix)s

-- name: size
-- Bytes of a staging table.
SELECT pg_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s
