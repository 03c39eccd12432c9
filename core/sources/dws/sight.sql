-- The sessions of others that the login can see, and their open transactions. A server may reject a statement or lack a
-- view; its contents then count as hidden.

-- name: coordinators
-- DWS, PGXC_NODE: node_type C is a coordinator.
SELECT count(*) FROM pgxc_node WHERE node_type = 'C'

-- name: login
-- PostgreSQL and DWS: rolsuper. DWS, PG_ROLES: rolsystemadmin (PostgreSQL does not have this column, so * is selected).
SELECT * FROM pg_roles WHERE rolname = current_user

-- name: statistics
-- Roles whose members see all users' sessions. DWS "Preset roles": gs_role_read_all_stats; PostgreSQL:
-- pg_read_all_stats.
SELECT count(*) FROM pg_roles r
WHERE r.rolname IN ('gs_role_read_all_stats', 'pg_read_all_stats') AND pg_has_role(r.oid, 'USAGE')

-- name: list_across
-- Return whether the sessions of all coordinators are listed and this login can read the list. DWS, PGXC_STAT_ACTIVITY.
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'pg_catalog' AND c.relname = 'pgxc_stat_activity' AND has_table_privilege(c.oid, 'SELECT')

-- name: open_here
-- Return every other session of this coordinator that is inside a transaction. Each transaction locks its own virtual
-- id, so locks reveal sessions that the activity list hides. A session without a transaction number (it has only read
-- so far) holds back no xmin, but can write later under a snapshot that is older than the slot. Sessions that are not
-- listed at all can belong to another database, or be opened or closed during this query, which reads the two views
-- one after the other.
SELECT a.pid, coalesce(extract(epoch FROM a.xact_start)::text, l.virtualtransaction) AS started,
       a.usename, a.application_name, coalesce(a.query, '<insufficient privilege>') = '<insufficient privilege>' AS hidden
FROM pg_stat_activity a
LEFT JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'virtualxid' AND l.virtualxid = l.virtualtransaction
WHERE a.pid <> pg_backend_pid() AND a.datname = current_database()
  AND coalesce(a.query, '') NOT LIKE 'autovacuum:%%'
  AND (a.xact_start IS NOT NULL OR coalesce(a.query, '<insufficient privilege>') = '<insufficient privilege>')
UNION ALL
SELECT l.pid, l.virtualtransaction, NULL, NULL, true
FROM pg_locks l
WHERE l.locktype = 'virtualxid' AND l.virtualxid = l.virtualtransaction AND l.pid <> pg_backend_pid()
  AND NOT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.pid = l.pid)

-- name: shown_in_full
-- Return those of the sessions that this login sees in full.
SELECT a.pid FROM pg_stat_activity a
WHERE a.pid = ANY(%(pids)s) AND coalesce(a.query, '<insufficient privilege>') <> '<insufficient privilege>'

-- name: open_across
-- Return the rows of `open_here` for all coordinators, if the login can read the list. Two coordinators can use the
-- same session number.
SELECT a.pid, extract(epoch FROM a.xact_start)::text, a.usename, a.application_name || ' through ' || a.coorname
FROM pgxc_stat_activity a
WHERE a.xact_start IS NOT NULL AND a.datname = current_database() AND coalesce(a.query, '') NOT LIKE 'autovacuum:%%'
  AND NOT (a.pid = pg_backend_pid() AND a.application_name = %(own)s)

-- name: prepared
-- Return transactions without a session, of any database: each has a number and therefore holds back the snapshot.
SELECT p.gid, p.owner, p.database FROM pg_prepared_xacts p

-- name: snapshot
-- Return the oldest transaction number that is still open in the coordinator's own snapshot.
SELECT txid_snapshot_xmin(txid_current_snapshot())

-- name: left_across
-- Return the same as `sessions_left` in queries.sql, for all coordinators.
SELECT count(*) FROM pgxc_stat_activity a
WHERE a.usename = current_user AND a.datname = current_database()
  AND a.application_name LIKE %(pattern)s AND a.application_name <> %(own)s AND a.application_name NOT LIKE '%%/lease'
  AND NOT (a.pid = pg_backend_pid() AND a.application_name = %(name)s)
