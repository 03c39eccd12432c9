-- A session that blocks a session of this login: its description, whether this login can end it, and its end.

-- name: in_front
-- One statement checks and acts, so a session that has left the queue, or another session that has received its pid, is
-- not ended. The job's own sessions are those of this login in this database, by their names; a session of another
-- login with such a name does not count. PostgreSQL, "Server Signaling Functions": who can end which session
-- (signalfuncs.c calls has_privs_of_role, which is pg_has_role with 'USAGE'). A server before version 10 has no
-- backend_type and cannot be a sink.
WITH RECURSIVE front(pid, depth) AS (
    SELECT ahead.pid, 1 FROM pg_locks l JOIN pg_stat_activity w ON w.pid = l.pid,
           unnest(pg_blocking_pids(l.pid)) AS ahead(pid)
    WHERE NOT l.granted AND w.datname = current_database() AND w.usename = session_user
      AND strpos(w.application_name, %(prefix)s) = 1
    UNION
    SELECT ahead.pid, f.depth + 1 FROM front f, unnest(pg_blocking_pids(f.pid)) AS ahead(pid) WHERE f.depth < %(deepest)s
), found AS MATERIALIZED (
    SELECT a.pid, CASE WHEN a.usesysid IS NULL THEN '' ELSE a.usename::text END AS usename, a.application_name, a.state,
           extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.state_change))::float8 AS seconds, a.query,
           extract(epoch FROM a.backend_start)::float8 AS began,
           a.usesysid IS NOT NULL AND coalesce(a.backend_type, 'client backend') = 'client backend' AS client,
           coalesce(them.rolsuper, true) AS guarded,
           CASE WHEN us.rolsuper THEN 'superuser'
                WHEN coalesce(them.rolsuper, true) THEN ''
                WHEN pg_has_role(current_user, a.usesysid, 'USAGE') THEN 'the same role'
                WHEN EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'pg_signal_backend'
                             AND pg_has_role(current_user, r.oid, 'USAGE')) THEN 'pg_signal_backend'
                ELSE '' END AS allowed
    FROM pg_stat_activity a
    JOIN pg_roles us ON us.rolname = current_user
    LEFT JOIN pg_roles them ON them.oid = a.usesysid
    WHERE a.pid = %(pid)s AND a.pid <> pg_backend_pid() AND a.pid IN (SELECT pid FROM front)
)
SELECT pid, usename, application_name, state, seconds, query, began, current_user::text, client, allowed, guarded,
       CASE WHEN %(began)s::float8 IS NOT NULL AND client AND allowed <> '' AND strpos(application_name, %(prefix)s) <> 1
                 AND abs(began - %(began)s::float8) <= %(same)s
            THEN pg_terminate_backend(pid) ELSE false END
FROM found

-- name: session
-- Whether that session still exists.
SELECT count(*) FROM pg_stat_activity
WHERE pid = %(pid)s AND abs(extract(epoch FROM backend_start)::float8 - %(began)s) <= %(same)s
