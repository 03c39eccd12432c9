-- What looking commands ask a PostgreSQL sink: catalogs only; nothing is made or locked.

-- name: server
-- Who answers, who we are there, its clock (seconds since 1970), and whether we may make
-- temporary tables and schemas.
SELECT current_setting('server_version'), current_user::text, extract(epoch FROM clock_timestamp())::float8,
       (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user),
       has_database_privilege(current_database(), 'TEMPORARY'),
       has_database_privilege(current_database(), 'CREATE')

-- name: own_path
-- The login's default search_path; a job's sessions set their own.
SELECT reset_val FROM pg_settings WHERE name = 'search_path'

-- name: mode
-- The compatibility mode of a database of DWS (DWS, "Platform and Client Compatibility", sql_compatibility): ORA, TD or MYSQL.
SELECT setting FROM pg_settings WHERE name = 'sql_compatibility'

-- name: open_schemas
-- Those of these schemas in which everybody may create. PostgreSQL and DWS, has_schema_privilege: public is everybody.
SELECT n.nspname::text FROM pg_namespace n
WHERE n.nspname = ANY (%(names)s) AND has_schema_privilege('public'::name, n.oid, 'CREATE') ORDER BY 1

-- name: schema
-- Rights on a schema: may use, may create in it; no row where it does not exist.
SELECT has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE')
FROM pg_namespace n WHERE n.nspname = %(schema)s

-- name: table
-- Rights on a table by schema and name, in the order of `TABLE_RIGHTS`; no row where it does not exist.
SELECT has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),
       has_table_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE'),
       has_table_privilege(c.oid, 'TRUNCATE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: alters
-- By what a login changes rows, or the table, in the order of `_ALTERS`. PostgreSQL, DROP TABLE: "Only the table owner,
-- the schema owner, and superuser can drop a table". A trigger changes rows that others insert.
SELECT pg_has_role(c.relowner, 'MEMBER'), pg_has_role(n.nspowner, 'MEMBER'), has_any_column_privilege(c.oid, 'UPDATE'),
       has_table_privilege(c.oid, 'DELETE'), has_table_privilege(c.oid, 'TRUNCATE'),
       has_table_privilege(c.oid, 'TRIGGER')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: lanes
-- What we registered for a slot by the progress rows, and how long ago by this server's clock.
SELECT shard, position, registered,
       extract(epoch FROM clock_timestamp() - registered_at)::float8
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY shard

-- name: followed
-- The tables that jobs follow by their rows, on any host.
SELECT DISTINCT job, source, source_table, slot FROM {schema}.slotkeeper_progress ORDER BY 1, 2, 3, 4

-- name: queried
-- The slots that DataFrame queries read: their rows have the name of no table, but a word in its place.
SELECT DISTINCT source, source_table, slot FROM {schema}.slotkeeper_progress
WHERE position(%(target)s in target) > 0 ORDER BY 1, 2, 3
