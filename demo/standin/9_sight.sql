-- STAND-IN for the binlog surface of a DWS. Here: what a session sees of other sessions, and through which coordinator.
-- There is one PostgreSQL: a session whose application_name ends in @NAME of a further coordinator counts as connected
-- through that one, and sessions of two coordinators do not see each other in pg_stat_activity and pg_locks.
-- DWS, PG_STAT_ACTIVITY: an ordinary login sees its own sessions only, an administrator or a member of the preset role
-- all (`by_user`; else PostgreSQL's way: rows of others with '<insufficient privilege>'). PGXC_STAT_ACTIVITY covers all
-- coordinators; DWS "Preset roles": gs_role_read_all_stats may read it. demo/facts.py sets what stands here.

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

-- Those of other coordinators than the caller's.
CREATE FUNCTION dws.apart() RETURNS SETOF integer LANGUAGE sql STABLE SECURITY DEFINER AS $$
SELECT s.pid FROM dws.sessions() s
WHERE s.coordinator <> (SELECT own.coordinator FROM dws.sessions() own WHERE own.pid = pg_backend_pid()) $$;

CREATE FUNCTION dws.sees_all() RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT r.rolsuper OR pg_has_role('pg_read_all_stats', 'USAGE') FROM pg_roles r WHERE r.rolname = current_user $$;

SET allow_system_table_mods = on;

DO $$ BEGIN
    EXECUTE 'CREATE VIEW pg_catalog.pgxc_stat_activity AS SELECT e.coordinator::text AS coorname, a.* FROM ('
        || rtrim(pg_get_viewdef('pg_catalog.pg_stat_activity'), ';')
        || ') a JOIN dws.sessions() e ON e.pid = a.pid WHERE dws.sees_all() OR a.usename = current_user';
    EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_stat_activity AS '
        || rtrim(pg_get_viewdef('pg_catalog.pg_stat_activity'), ';')
        || ' WHERE s.pid NOT IN (SELECT dws.apart())'
        || ' AND (NOT (SELECT by_user FROM dws.sight) OR u.rolname = current_user OR dws.sees_all())';
    -- the stand-in's own calls read the advisory locks of all
    EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_locks AS '
        || rtrim(pg_get_viewdef('pg_catalog.pg_locks'), ';')
        || ' WHERE l.locktype = ''advisory'' OR l.pid IS NULL OR l.pid NOT IN (SELECT dws.apart())';
END $$;
GRANT SELECT ON pg_catalog.pgxc_stat_activity TO gs_role_read_all_stats;

-- Where coordinators do not tell each other: a snapshot without the transactions of sessions elsewhere.
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
