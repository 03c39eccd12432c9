-- Find sessions that wait for slots and for jobs' sessions. Only system views are read, so that no statement waits for
-- a lock on a user's table.

-- name: here
-- Return sessions of this coordinator that may run a VACUUM FULL or a redistribution; the caller checks their
-- statements. DWS, PG_STAT_ACTIVITY (query_id; an ordinary login sees only its own sessions).
SELECT a.pid, a.usename::text, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::float8,
       a.query, a.query_id, extract(epoch FROM clock_timestamp() - coalesce(a.query_start, a.xact_start))::float8, ''
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.state IS DISTINCT FROM 'idle'
  AND (a.query ILIKE '%%vacuum%%' OR a.application_name LIKE 'gs\_%%')

-- name: across
-- Return the rows of `here` for all coordinators. DWS, PGXC_STAT_ACTIVITY.
SELECT a.pid, a.usename::text, a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::float8,
       a.query, a.query_id, extract(epoch FROM clock_timestamp() - coalesce(a.query_start, a.xact_start))::float8,
       a.coorname::text
FROM pgxc_stat_activity a
WHERE a.datname = current_database() AND a.state IS DISTINCT FROM 'idle'
  AND (a.query ILIKE '%%vacuum%%' OR a.application_name LIKE 'gs\_%%')

-- name: pairs
-- Return each session that waits for a lock of these tables on any node, paired with each session that holds a lock
-- there (DWS, PGXC_LOCK_CONFLICTS, dws_04_0809: relation and partition among others; a session's query can be
-- '<insufficient privilege>'). The view does not contain application names, so jobs' sessions are found by their query
-- id in PG_STAT_ACTIVITY of this coordinator. With hundreds of holders and waiters, only jobs' sessions and sessions
-- that block writers are returned.
SELECT w.nspname || '.' || w.relname, w.nodename::text, w.mode, h.mode,
       coalesce(extract(epoch FROM clock_timestamp() - wa.query_start), extract(epoch FROM clock_timestamp() - w.xactstart), 0)::float8,
       w.pid, w.username::text, wa.application_name, wa.state,
       extract(epoch FROM clock_timestamp() - w.xactstart)::float8, w.query, w.queryid,
       h.pid, h.username::text, ha.application_name, ha.state,
       extract(epoch FROM clock_timestamp() - h.xactstart)::float8, h.query, h.queryid
FROM pgxc_lock_conflicts w
JOIN pgxc_lock_conflicts h ON h.granted AND h.nodename = w.nodename AND h.locktype = w.locktype AND h.dbname = w.dbname
 AND h.nspname = w.nspname AND h.relname = w.relname AND coalesce(h.partname, '') = coalesce(w.partname, '')
 AND h.pid <> w.pid
LEFT JOIN pg_stat_activity wa ON wa.query_id = w.queryid AND w.queryid <> 0
LEFT JOIN pg_stat_activity ha ON ha.query_id = h.queryid AND h.queryid <> 0
WHERE NOT w.granted AND w.dbname = current_database() AND w.locktype IN ('relation', 'partition')
  AND w.nspname || '.' || w.relname = ANY (%(tables)s)
  AND (ha.application_name LIKE 'slotkeeper/%%'
       OR h.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))

-- name: limits
-- Return the limits in seconds or milliseconds: DWS, "Lock Management" (dws_04_0928), and binlog_consume_timeout in
-- "HStore Tables".
SELECT name, setting FROM pg_settings WHERE name IN ('binlog_consume_timeout', 'ddl_lock_timeout', 'lockwait_timeout')
