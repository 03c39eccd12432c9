-- Who waits for a lock, and who is in front: system views only, so that no lock of a user's table is waited for.

-- name: waiting
-- Our sessions in this database that wait for a lock: what for, since how many seconds where the server tells (pg_locks
-- has waitstart from PostgreSQL 14 on; through JSON an older one answers NULL), and who is directly in front by
-- pg_blocking_pids (PostgreSQL, "System Information Functions"; 0 is a prepared transaction). A session that waits for
-- another transaction's end has locked its row itself (access/heap/README.tuplock): the row's table is returned.
-- A wait for a table's extension is none: its holder waits for no other lock (storage/lmgr/lock.c) and releases it as
-- soon as the pages are added, so that ending a session would help nothing.
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
-- What these sessions are and do, as far as this login is shown it, and who is in front of them.
SELECT p.pid, a.pid IS NOT NULL AND a.usesysid IS NULL, a.usename::text, a.application_name, a.state,
       extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.state_change))::float8, a.query,
       coalesce((SELECT min(k.virtualtransaction) FROM pg_locks k WHERE k.pid = p.pid), ''), pg_blocking_pids(p.pid),
       extract(epoch FROM a.backend_start)::float8
FROM unnest(%(pids)s::int[]) AS p(pid) LEFT JOIN pg_stat_activity a ON a.pid = p.pid

-- name: prepared
-- Prepared transactions that have a lock on these things. Which one a lock is of, the lock on its own number tells: its
-- virtual transaction may be -1/xid (PostgreSQL, "pg_locks") or that of the session which prepared it
-- (MarkAsPreparingGuts in access/transam/twophase.c).
SELECT l.tag, l.virtualtransaction, p.gid, p.owner::text, extract(epoch FROM clock_timestamp() - p.prepared)::float8
FROM (SELECT (k.locktype, k.database, k.relation, k.page, k.tuple, k.virtualxid, k.transactionid, k.classid, k.objid, k.objsubid)::text AS tag,
             k.virtualtransaction FROM pg_locks k WHERE k.pid IS NULL AND k.granted) l
JOIN pg_locks x ON x.virtualtransaction = l.virtualtransaction AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.granted
JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.tag = ANY (%(tags)s)

-- name: there
-- Which of these transactions are still at these things, with the lock or in its queue.
SELECT DISTINCT l.tag, l.virtualtransaction
FROM (SELECT (k.locktype, k.database, k.relation, k.page, k.tuple, k.virtualxid, k.transactionid, k.classid, k.objid, k.objsubid)::text AS tag,
             k.virtualtransaction FROM pg_locks k) l
JOIN unnest(%(tags)s::text[], %(transactions)s::text[]) AS b(tag, transaction)
  ON b.tag = l.tag AND b.transaction = l.virtualtransaction

-- name: conflicts
-- For DWS: all locks of this database that wait or are waited for, on any node (DWS, PGXC_LOCK_CONFLICTS, dws_04_0809).
-- It names no session, so ours are found by their query, as PG_STAT_ACTIVITY of this coordinator lists it.
SELECT l.nodename::text, l.pid, l.granted, l.mode, l.locktype, l.nspname::text, l.relname::text, l.partname::text,
       l.page, l.tuple, l.transactionid::text, l.username::text, l.gxid::text, l.queryid, l.query,
       extract(epoch FROM clock_timestamp() - l.xactstart)::float8, a.application_name, a.state
FROM pgxc_lock_conflicts l
LEFT JOIN pg_stat_activity a ON a.query_id = l.queryid AND l.queryid <> 0
WHERE l.locktype IS DISTINCT FROM 'extend' AND (l.dbname = current_database() OR l.dbname IS NULL)
ORDER BY l.nodename, l.pid
