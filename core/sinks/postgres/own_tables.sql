-- The statements on slotkeeper_versions, and what is asked of the catalog to recognise tables that are older than it.

-- name: there
-- Which of these tables are in the schema.
SELECT tablename FROM pg_tables WHERE schemaname = %(schema)s AND tablename = ANY (%(tables)s)

-- name: has_column
-- Whether a table has a column.
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND a.attname = %(column)s AND NOT a.attisdropped

-- name: owner
-- Whether this login may alter a table, whose it is, and who asks.
SELECT pg_has_role(c.relowner, 'USAGE'), pg_get_userbyid(c.relowner)::text, current_user::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %(schema)s AND c.relname = %(table)s

-- name: create
-- One row for each group of our own tables: the number of the migration that was applied last. Every login that may start
-- a job here can read it.
CREATE TABLE {schema}.slotkeeper_versions (
    tables text NOT NULL PRIMARY KEY,
    version integer NOT NULL,
    applied_at timestamptz NOT NULL
);
GRANT SELECT ON {schema}.slotkeeper_versions TO PUBLIC

-- name: create_dws
-- The same on DWS.
CREATE TABLE {schema}.slotkeeper_versions (
    tables text NOT NULL PRIMARY KEY,
    version integer NOT NULL,
    applied_at timestamptz NOT NULL
) WITH (orientation = row) DISTRIBUTE BY HASH (tables);
GRANT SELECT ON {schema}.slotkeeper_versions TO PUBLIC

-- name: may_create
-- Whether this login may make a table in the schema.
SELECT has_schema_privilege(%(schema)s, 'CREATE')

-- name: may_record
-- Whether this login may record a number: in a table that another one made it may only read.
SELECT has_table_privilege('{schema}.slotkeeper_versions', 'INSERT') AND has_table_privilege('{schema}.slotkeeper_versions', 'DELETE')

-- name: version
-- The number that was applied last.
SELECT version FROM {schema}.slotkeeper_versions WHERE tables = %(group)s

-- name: forget
-- Before the next number is recorded.
DELETE FROM {schema}.slotkeeper_versions WHERE tables = %(group)s

-- name: record
-- The number that was applied last, in the transaction that applied it.
INSERT INTO {schema}.slotkeeper_versions (tables, version, applied_at) VALUES (%(group)s, %(version)s, now())

-- name: places
-- The slots that have progress rows here, to ask who runs their jobs.
SELECT DISTINCT job, source, source_table, slot FROM {schema}.slotkeeper_progress
