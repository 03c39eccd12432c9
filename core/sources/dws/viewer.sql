-- The statements of commands that read DWS: they use catalogs and functions that only read, and never create a slot.
-- `slots` and `consume_progress` are in queries.sql.

-- name: server
-- Return the server's version, the login's user, and the server's clock in seconds since 1970.
SELECT version(), current_user::text, extract(epoch FROM clock_timestamp())::float8,
       (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)

-- name: own_path
-- The login's default search_path; a job's sessions set their own.
SELECT reset_val FROM pg_settings WHERE name = 'search_path'

-- name: open_schemas
-- Return those of these schemas in which every user can create objects. PostgreSQL and DWS, has_schema_privilege:
-- public means every user.
SELECT n.nspname::text FROM pg_namespace n
WHERE n.nspname = ANY (%(names)s) AND has_schema_privilege('public'::name, n.oid, 'CREATE') ORDER BY 1

-- name: settings
-- Return the server settings that determine whether a binlog can be followed; a setting that the server lacks has no
-- row.
SELECT name, setting FROM pg_settings
WHERE name IN ('gtm_option', 'enable_gtm_free', 'enable_hstore_binlog_table', 'enable_generate_binlog', 'binlog_consume_timeout',
               'sql_compatibility')

-- name: functions
-- Return the existing binlog functions and whether this user can execute them.
SELECT p.proname::text, bool_or(has_function_privilege(p.oid, 'EXECUTE'))
FROM pg_proc p
WHERE p.proname LIKE 'pgxc\_%%binlog%%' OR p.proname = 'pgxc_register_full_sync_point'
GROUP BY p.proname

-- name: table
-- Return the facts of a table by schema and name: oid, privileges, primary key and its deferrability, storage options,
-- kind; whether the login owns it and is an administrator; which checks for hidden or masked rows the server supports;
-- and whether the table is partitioned. `none` supplies rolsystemadmin and parttype on a server that lacks them.
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
-- Return whether row security hides rows of this table from the login. PostgreSQL 9.5 and newer.
SELECT row_security_active(%(oid)s::oid)

-- name: redaction
-- Return how many redaction policies are enabled for this table. DWS, PG_REDACTION_POLICY.
SELECT count(*) FROM pg_redaction_policy WHERE object_oid = %(oid)s::oid AND enable
-- name: columns
-- Return a table's columns in order, and which of them are computed when they are read ('v'). The catalog of DWS, like
-- that of PostgreSQL before 12, has no `attgenerated`; the name in the subquery then refers to the column of `absent`.
SELECT a.attname::text,
       (SELECT attgenerated::text FROM pg_attribute g WHERE g.attrelid = a.attrelid AND g.attnum = a.attnum)
FROM pg_attribute a CROSS JOIN (SELECT ''::text AS attgenerated) absent
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: inheritors
-- Return the tables that inherit from a table; partitions in DWS do not inherit.
SELECT i.inhrelid::regclass::text FROM pg_inherits i WHERE i.inhparent = %(oid)s ORDER BY 1

-- name: distribution
-- Return how a table is distributed: H is hash, the only distribution with a binlog.
SELECT pclocatortype::text FROM pgxc_class WHERE pcrelid = %(oid)s::oid

-- name: consumed
-- Return 0 or 1 for a table with a binlog, and fail for any other table; changes nothing.
SELECT pgxc_consumed_binlog_records(%(table)s, 0)

-- name: latest
-- Return the newest sync point as each DN reports it, without a slot. Kernel 9.1.0.200 or newer.
SELECT node_name, latest_sync_point FROM pgxc_get_binlog_cursor_by_syncpoint(%(table)s, 0, 0)

-- name: consumed_on
-- Return 1 if every point of every slot is after the newest record of one DN (of all DNs with node 0), else 0; changes
-- nothing.
SELECT pgxc_consumed_binlog_records(%(table)s, %(node)s)

-- name: listed
-- Return tables and views by schema and name, with the facts that the catalogs show for all of them at once: privileges,
-- primary key, storage options and kind. Without schemas, all but system schemas; the server's own objects have oids
-- below 16384 (PostgreSQL, "System Catalog Initial Data", OID assignment), except the schema public.
SELECT n.nspname::text, c.relname::text, has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),
       (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
       (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p' AND k.condeferrable),
       coalesce(array_to_string(c.reloptions, ','), ''), c.relkind::text, c.relpersistence::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (n.oid >= 16384 OR n.nspname = 'public')
  AND n.nspname NOT LIKE 'pg\_%%' AND (%(every)s OR n.nspname = ANY (%(schemas)s))
ORDER BY 1, 2
