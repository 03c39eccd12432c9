-- Sessions that wait for a lock, and the sessions that block them. Reads only system views, so that no query waits for
-- the lock of a user's table.

-- name: waiting
-- The job's sessions in this database that wait for a lock: the lock, the duration of the wait in seconds if the server
-- reports it (pg_locks has waitstart in PostgreSQL 14 and later; through JSON, an older server returns NULL), and the
-- direct blockers according to pg_blocking_pids (PostgreSQL, "System Information Functions"; 0 is a prepared
-- transaction). A session that waits for the end of another transaction has itself locked the row
-- (access/heap/README.tuplock), so the table of that row is returned. A wait for the extension of a table is omitted:
-- the holder waits for no other lock (storage/lmgr/lock.c) and releases the lock as soon as the pages are added, so
-- ending a session would not help.
SELECT l.pid, a.application_name, a.query, l.mode, l.locktype,
       (l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid, l.objid, l.objsubid)::text,
       extract(epoch FROM clock_timestamp() - (to_jsonb(l) ->> 'waitstart')::timestamptz)::float8,
       pg_blocking_pids(l.pid), n.nspname::text, c.relname::text
FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_locks r ON l.locktype = 'transactionid' AND r.pid = l.pid AND r.locktype = 'tuple' AND r.granted
LEFT JOIN pg_class c ON c.oid = coalesce(l.relation, r.relation)
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT l.granted AND l.locktype <> 'extend' AND a.datname = current_database()
  AND strpos(a.application_name, %(prefix)s) = 1
ORDER BY l.pid

-- name: sessions
-- The description and activity of these sessions, as far as this login can see them, and their blockers.
SELECT p.pid, a.pid IS NOT NULL AND a.usesysid IS NULL, a.usename::text, a.application_name, a.state,
       extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.state_change))::float8, a.query,
       coalesce((SELECT min(k.virtualtransaction) FROM pg_locks k WHERE k.pid = p.pid), ''), pg_blocking_pids(p.pid),
       extract(epoch FROM a.backend_start)::float8
FROM unnest(%(pids)s::int[]) AS p(pid) LEFT JOIN pg_stat_activity a ON a.pid = p.pid

-- name: prepared
-- Prepared transactions that hold a lock on these objects. The transaction to which a lock belongs is found through its
-- lock on its own number: its virtual transaction can be -1/xid (PostgreSQL, "pg_locks") or that of the session that
-- prepared it (MarkAsPreparingGuts in access/transam/twophase.c).
SELECT l.tag, l.virtualtransaction, p.gid, p.owner::text, extract(epoch FROM clock_timestamp() - p.prepared)::float8
FROM (SELECT (k.locktype, k.database, k.relation, k.page, k.tuple, k.virtualxid, k.transactionid, k.classid, k.objid, k.objsubid)::text AS tag,
             k.virtualtransaction FROM pg_locks k WHERE k.pid IS NULL AND k.granted) l
JOIN pg_locks x ON x.virtualtransaction = l.virtualtransaction AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.granted
JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.tag = ANY (%(tags)s)

-- name: there
-- Those of these transactions that still hold or await a lock on these objects.
SELECT DISTINCT l.tag, l.virtualtransaction
FROM (SELECT (k.locktype, k.database, k.relation, k.page, k.tuple, k.virtualxid, k.transactionid, k.classid, k.objid, k.objsubid)::text AS tag,
             k.virtualtransaction FROM pg_locks k) l
JOIN unnest(%(tags)s::text[], %(transactions)s::text[]) AS b(tag, transaction)
  ON b.tag = l.tag AND b.transaction = l.virtualtransaction

-- name: conflicts
-- For DWS: all locks of this database that wait or are waited for, on any node (DWS, PGXC_LOCK_CONFLICTS, dws_04_0809).
-- The view names no session, so the job's sessions are found through their query, as listed in this coordinator's
-- PG_STAT_ACTIVITY.
SELECT l.nodename::text, l.pid, l.granted, l.mode, l.locktype, l.nspname::text, l.relname::text, l.partname::text,
       l.page, l.tuple, l.transactionid::text, l.username::text, l.gxid::text, l.queryid, l.query,
       extract(epoch FROM clock_timestamp() - l.xactstart)::float8, a.application_name, a.state
FROM pgxc_lock_conflicts l
LEFT JOIN pg_stat_activity a ON a.query_id = l.queryid AND l.queryid <> 0
WHERE l.locktype IS DISTINCT FROM 'extend' AND (l.dbname = current_database() OR l.dbname IS NULL)
ORDER BY l.nodename, l.pid
