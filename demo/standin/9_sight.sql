-- STAND-IN for the binlog functions of DWS. This file determines which other sessions a session sees, and through which
-- coordinator. There is one PostgreSQL server: a session whose application_name ends in @NAME of another coordinator
-- counts as connected through that coordinator, and sessions of two coordinators do not see each other in
-- pg_stat_activity and pg_locks. DWS, PG_STAT_ACTIVITY: an ordinary login sees only its own sessions; an administrator
-- or a member of the preset role sees all (`by_user`; without it, PostgreSQL's behavior: rows of other users have
-- '<insufficient privilege>'). PGXC_STAT_ACTIVITY covers all coordinators; DWS "Preset roles": gs_role_read_all_stats
-- can read it. demo/facts.py changes these settings.

CREATE TABLE dws.sight (by_user boolean NOT NULL, snapshots_apart boolean NOT NULL, status_idle boolean NOT NULL);
INSERT INTO dws.sight VALUES (false, false, false);
GRANT SELECT ON dws.sight TO PUBLIC;
INSERT INTO dws.setting VALUES ('pgxc_node_name', 'cn_5001');

-- Every session with its coordinator.
CREATE FUNCTION dws.sessions() RETURNS TABLE (pid integer, coordinator name, xid xid)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
SELECT a.pid, coalesce(c.node_name, 'cn_5001'), a.backend_xid
FROM pg_stat_get_activity(NULL) a
LEFT JOIN dws.coordinator c ON a.application_name LIKE '%@' || replace(c.node_name::text, '_', '\_') $$;

-- The sessions of coordinators other than the caller's.
CREATE FUNCTION dws.apart() RETURNS SETOF integer LANGUAGE sql STABLE SECURITY DEFINER AS $$
SELECT s.pid FROM dws.sessions() s
WHERE s.coordinator <> (SELECT own.coordinator FROM dws.sessions() own WHERE own.pid = pg_backend_pid()) $$;

CREATE FUNCTION dws.sees_all() RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT r.rolsuper OR pg_has_role('pg_read_all_stats', 'USAGE') FROM pg_roles r WHERE r.rolname = current_user $$;

-- The name of a maintenance statement that PostgreSQL lacks, from the comment of the simulating statement ("/* as
-- VACUUM FULL a */ ...").
CREATE FUNCTION dws.typed(query text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
SELECT regexp_replace(query, '^/\* as (.*?) \*/.*$', '\1') $$;

-- The view of sessions with a query_id, as DWS assigns it: here, it is the session's pid.
CREATE FUNCTION dws.as_a_dws(view text) RETURNS text LANGUAGE sql AS $$
SELECT replace(replace(rtrim(view, ';'), 's.query_id', 's.pid::bigint AS query_id'), 's.query,', 'dws.typed(s.query) AS query,') $$;

SET allow_system_table_mods = on;

DO $$ BEGIN
    EXECUTE 'CREATE VIEW pg_catalog.pgxc_stat_activity AS SELECT e.coordinator::text AS coorname, a.* FROM ('
        || dws.as_a_dws(pg_get_viewdef('pg_catalog.pg_stat_activity'))
        || ') a JOIN dws.sessions() e ON e.pid = a.pid WHERE dws.sees_all() OR a.usename = current_user';
    EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_stat_activity AS '
        || dws.as_a_dws(pg_get_viewdef('pg_catalog.pg_stat_activity'))
        || ' WHERE s.pid NOT IN (SELECT dws.apart())'
        || ' AND (NOT (SELECT by_user FROM dws.sight) OR u.rolname = current_user OR dws.sees_all())';
    -- the stand-in's own functions read the advisory locks of all sessions
    EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_locks AS '
        || rtrim(pg_get_viewdef('pg_catalog.pg_locks'), ';')
        || ' WHERE l.locktype = ''advisory'' OR l.pid IS NULL OR l.pid NOT IN (SELECT dws.apart())';
END $$;
GRANT SELECT ON pg_catalog.pgxc_stat_activity TO gs_role_read_all_stats;

-- DWS, PGXC_LOCK_CONFLICTS (dws_04_0809): locks that wait or are waited for. It names each user; an ordinary login sees
-- '<insufficient privilege>' instead of another user's statement (the example of pgxc_get_lock_conflicts).
CREATE FUNCTION dws.lock_conflicts() RETURNS TABLE (locktype text, nodename name, dbname name, nspname name,
    relname name, partname name, page integer, tuple smallint, transactionid xid, username name, gxid xid,
    xactstart timestamptz, queryid bigint, query text, pid bigint, mode text, granted boolean)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
SELECT l.locktype, 'cn_5001'::name, current_database()::name, n.nspname, c.relname, NULL::name, l.page, l.tuple,
    l.transactionid, r.rolname, a.backend_xid, a.xact_start, a.pid::bigint, dws.typed(a.query), l.pid::bigint, l.mode, l.granted
FROM pg_lock_status() l JOIN pg_stat_get_activity(NULL) a ON a.pid = l.pid LEFT JOIN pg_roles r ON r.oid = a.usesysid
JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND l.relation IN (SELECT w.relation FROM pg_lock_status() w WHERE NOT w.granted AND w.locktype = 'relation') $$;
CREATE VIEW pg_catalog.pgxc_lock_conflicts AS
SELECT locktype, nodename, dbname, nspname, relname, partname, page, tuple, transactionid, username, gxid, xactstart, queryid,
    CASE WHEN dws.sees_all() OR username = current_user THEN query ELSE '<insufficient privilege>' END AS query,
    pid, mode, granted
FROM dws.lock_conflicts();
GRANT SELECT ON pg_catalog.pgxc_lock_conflicts TO PUBLIC;

-- If coordinators are separate (snapshots_apart): a snapshot without the transactions of other coordinators' sessions.
ALTER FUNCTION pg_catalog.txid_current_snapshot() RENAME TO postgresql_txid_current_snapshot;
CREATE FUNCTION pg_catalog.txid_current_snapshot() RETURNS txid_snapshot LANGUAGE plpgsql STABLE AS $$
DECLARE
    whole txid_snapshot := postgresql_txid_current_snapshot();
    open bigint[];
BEGIN
    IF NOT (SELECT snapshots_apart FROM dws.sight) THEN
        RETURN whole;
    END IF;
    open := ARRAY(SELECT x FROM txid_snapshot_xip(whole) x WHERE x NOT IN (
        SELECT s.xid::text::bigint FROM dws.sessions() s WHERE s.xid IS NOT NULL AND s.pid IN (SELECT dws.apart()))
        ORDER BY x);
    RETURN format('%s:%s:%s', coalesce(open[1], txid_snapshot_xmax(whole)), txid_snapshot_xmax(whole),
                  array_to_string(open, ','))::txid_snapshot;
END $$;

RESET allow_system_table_mods;
