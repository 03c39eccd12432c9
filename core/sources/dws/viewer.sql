-- Statements of reading commands for DWS: catalogs and functions that only read; none creates a slot.
-- `slots` and `consume_progress` stand in queries.sql.

-- name: server
-- Who answers, who we are there, and its clock (seconds since 1970).
SELECT version(), current_user::text, extract(epoch FROM clock_timestamp())::float8,
       (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)

-- name: own_path
-- The login's default search_path; a job's sessions set their own.
SELECT reset_val FROM pg_settings WHERE name = 'search_path'

-- name: open_schemas
-- Those of these schemas in which everybody may create. PostgreSQL and DWS, has_schema_privilege: public is everybody.
SELECT n.nspname::text FROM pg_namespace n
WHERE n.nspname = ANY (%(names)s) AND has_schema_privilege('public'::name, n.oid, 'CREATE') ORDER BY 1

-- name: settings
-- Server settings that decide whether a binlog can be followed; a server that lacks one answers no row for it.
SELECT name, setting FROM pg_settings
WHERE name IN ('gtm_option', 'enable_gtm_free', 'enable_hstore_binlog_table', 'enable_generate_binlog', 'binlog_consume_timeout',
               'sql_compatibility')

-- name: functions
-- Binlog functions that are there, and whether this user may execute them.
SELECT p.proname::text, bool_or(has_function_privilege(p.oid, 'EXECUTE'))
FROM pg_proc p
WHERE p.proname LIKE 'pgxc\_%%binlog%%' OR p.proname = 'pgxc_register_full_sync_point'
GROUP BY p.proname

-- name: table
-- Facts of a table by schema and name: oid, rights, primary key and its deferrability, storage options, kind; whether
-- it is ours, whether we are an administrator (a server without rolsystemadmin or parttype has `none`'s), whether it is
-- partitioned, and which questions about rows that are hidden or masked this server knows.
SELECT c.oid::bigint, has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),
       (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
       (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p' AND k.condeferrable),
       coalesce(array_to_string(c.reloptions, ','), ''), c.relkind::text, c.relpersistence::text,
       pg_get_userbyid(c.relowner) = current_user,
       (SELECT r.rolsuper OR rolsystemadmin FROM pg_roles r WHERE r.rolname = current_user),
       (SELECT count(*) FROM pg_proc p WHERE p.proname = 'row_security_active'),
       (SELECT parttype::text FROM pg_class p WHERE p.oid = c.oid),
       (SELECT count(*) FROM pg_class p JOIN pg_namespace s ON s.oid = p.relnamespace
        WHERE p.relname = 'pg_redaction_policy' AND s.nspname = 'pg_catalog')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, (SELECT false AS rolsystemadmin, 'n'::text AS parttype) none
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: row_security
-- Whether row security hides rows of this table from us. PostgreSQL 9.5 and newer.
SELECT row_security_active(%(oid)s::oid)

-- name: redaction
-- How many redaction policies are on for this table. DWS, PG_REDACTION_POLICY.
SELECT count(*) FROM pg_redaction_policy WHERE object_oid = %(oid)s::oid AND enable
-- name: columns
-- A table's columns in order, and which are computed when they are read ('v'). The catalog of DWS, as those before
-- PostgreSQL 12, has no `attgenerated`: then the name inside is that of the column outside.
SELECT a.attname::text,
       (SELECT attgenerated::text FROM pg_attribute g WHERE g.attrelid = a.attrelid AND g.attnum = a.attnum)
FROM pg_attribute a CROSS JOIN (SELECT ''::text AS attgenerated) absent
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: inheritors
-- Tables that inherit from a table; partitions of DWS do not.
SELECT i.inhrelid::regclass::text FROM pg_inherits i WHERE i.inhparent = %(oid)s ORDER BY 1

-- name: distribution
-- How a table is distributed: H is hash, the only one that has a binlog.
SELECT pclocatortype::text FROM pgxc_class WHERE pcrelid = %(oid)s::oid

-- name: consumed
-- Answers 0 or 1 for a table with binlog and fails for any other; a pure question.
SELECT pgxc_consumed_binlog_records(%(table)s, 0)

-- name: latest
-- The newest sync point as each DN tells it, without a slot. Kernel 9.1.0.200 or newer.
SELECT node_name, latest_sync_point FROM pgxc_get_binlog_cursor_by_syncpoint(%(table)s, 0, 0)

-- name: consumed_on
-- 1 where every point of every slot is past the newest record of one DN (or of all with node 0), else 0; a pure question.
SELECT pgxc_consumed_binlog_records(%(table)s, %(node)s)
