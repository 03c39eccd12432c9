-- Statements on slotkeeper_versions, and catalog queries that recognize tables older than slotkeeper_versions.

-- name: there
-- Those of the given tables that exist in the schema.
SELECT tablename FROM pg_tables WHERE schemaname = %(schema)s AND tablename = ANY (%(tables)s)

-- name: has_column
-- Whether a table has a column.
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND a.attname = %(column)s AND NOT a.attisdropped

-- name: owner
-- Whether this login can alter a table, the table's owner, and the login.
SELECT pg_has_role(c.relowner, 'USAGE'), pg_get_userbyid(c.relowner)::text, current_user::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %(schema)s AND c.relname = %(table)s

-- name: create
-- One row for each group of Slotkeeper's own tables: the number of the last applied migration. Every login that can
-- start a job here can read it.
CREATE TABLE {schema}.slotkeeper_versions (
    tables text NOT NULL PRIMARY KEY,
    version integer NOT NULL,
    applied_at timestamptz NOT NULL
);
GRANT SELECT ON {schema}.slotkeeper_versions TO PUBLIC

-- name: create_dws
-- The same for DWS.
CREATE TABLE {schema}.slotkeeper_versions (
    tables text NOT NULL PRIMARY KEY,
    version integer NOT NULL,
    applied_at timestamptz NOT NULL
) WITH (orientation = row) DISTRIBUTE BY HASH (tables);
GRANT SELECT ON {schema}.slotkeeper_versions TO PUBLIC

-- name: may_create
-- Whether this login can create a table in the schema.
SELECT has_schema_privilege(%(schema)s, 'CREATE')

-- name: may_record
-- Whether this login can record a number; if another login owns the table, it may only be able to read it.
SELECT has_table_privilege('{schema}.slotkeeper_versions', 'INSERT') AND has_table_privilege('{schema}.slotkeeper_versions', 'DELETE')

-- name: version
-- The number of the last applied migration.
SELECT version FROM {schema}.slotkeeper_versions WHERE tables = %(group)s

-- name: versions
-- The numbers of all groups.
SELECT tables, version FROM {schema}.slotkeeper_versions

-- name: forget
-- Removes the number before the next number is recorded.
DELETE FROM {schema}.slotkeeper_versions WHERE tables = %(group)s

-- name: record
-- Records the number of the last applied migration, in the transaction that applied it.
INSERT INTO {schema}.slotkeeper_versions (tables, version, applied_at) VALUES (%(group)s, %(version)s, now())

-- name: places
-- The slots that have progress rows here, used to find out who runs their jobs.
SELECT DISTINCT job, source, source_table, slot FROM {schema}.slotkeeper_progress
