-- Queries of read-only commands on a PostgreSQL sink: they read only catalogs, and create or lock nothing.

-- name: server
-- The server, the login, the server's clock (seconds since 1970), and whether the login can create temporary tables and
-- schemas.
SELECT current_setting('server_version'), current_user::text, extract(epoch FROM clock_timestamp())::float8,
       (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user),
       has_database_privilege(current_database(), 'TEMPORARY'),
       has_database_privilege(current_database(), 'CREATE')

-- name: own_path
-- The login's default search_path; sessions of jobs set their own.
SELECT reset_val FROM pg_settings WHERE name = 'search_path'

-- name: mode
-- The compatibility mode of a database on DWS (DWS, "Platform and Client Compatibility", sql_compatibility): ORA, TD or
-- MYSQL.
SELECT setting FROM pg_settings WHERE name = 'sql_compatibility'

-- name: open_schemas
-- Those of these schemas in which PUBLIC can create objects (PostgreSQL and DWS, has_schema_privilege: public means
-- every role).
SELECT n.nspname::text FROM pg_namespace n
WHERE n.nspname = ANY (%(names)s) AND has_schema_privilege('public'::name, n.oid, 'CREATE') ORDER BY 1

-- name: schema
-- Privileges on a schema: USAGE and CREATE; no row if the schema does not exist.
SELECT has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE')
FROM pg_namespace n WHERE n.nspname = %(schema)s

-- name: table
-- Privileges on a table by schema and name, in the order of `TABLE_RIGHTS`; no row if the table does not exist.
SELECT has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),
       has_table_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE'),
       has_table_privilege(c.oid, 'TRUNCATE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: alters
-- The privileges with which a login can change rows or the table, in the order of `_ALTERS`. PostgreSQL, DROP TABLE:
-- "Only the table owner, the schema owner, and superuser can drop a table". A trigger changes rows that other logins
-- insert.
SELECT pg_has_role(c.relowner, 'MEMBER'), pg_has_role(n.nspowner, 'MEMBER'), has_any_column_privilege(c.oid, 'UPDATE'),
       has_table_privilege(c.oid, 'DELETE'), has_table_privilege(c.oid, 'TRUNCATE'),
       has_table_privilege(c.oid, 'TRIGGER')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: lanes
-- The registration of a slot according to the progress rows, and its age by this server's clock.
SELECT shard, position, registered,
       extract(epoch FROM clock_timestamp() - registered_at)::float8
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY shard

-- name: followed
-- The tables that jobs on any host follow, according to their rows.
SELECT DISTINCT job, source, source_table, slot FROM {schema}.slotkeeper_progress ORDER BY 1, 2, 3, 4

-- name: queried
-- The slots that DataFrame queries read; their rows have a keyword in place of a table name.
SELECT DISTINCT source, source_table, slot FROM {schema}.slotkeeper_progress
WHERE position(%(target)s in target) > 0 ORDER BY 1, 2, 3
