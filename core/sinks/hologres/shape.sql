-- Facts that determine whether a table in Hologres can be a target, read only from catalogs, which are those of
-- PostgreSQL 11.

-- name: relation
-- The table's oid and kind (pg_class.relkind); no row if the table does not exist.
SELECT c.oid::bigint, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: columns
-- Columns in order: name, type, NOT NULL, whether it has a default, number; a type outside pg_catalog has its schema.
SELECT a.attname::text,
       CASE WHEN n.nspname = 'pg_catalog' OR position(quote_ident(n.nspname) || '.' IN format_type(a.atttypid, a.atttypmod)) = 1
            THEN '' ELSE quote_ident(n.nspname) || '.' END || format_type(a.atttypid, a.atttypmod),
       a.attnotnull, a.atthasdef, a.attnum::int
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: keys
-- Unique indexes: name, whether it is that of the primary key, its columns in order.
SELECT x.relname::text, i.indisprimary,
       ARRAY(SELECT a.attname::text FROM generate_series(0, i.indnatts - 1) p
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[p] ORDER BY p)
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = %(oid)s::oid AND i.indisunique ORDER BY 1

-- name: server
-- The server, the login, and the server's clock (seconds since 1970).
SELECT version(), current_user::text, extract(epoch FROM clock_timestamp())::float8

-- name: rights
-- Privileges on a table: SELECT, INSERT, UPDATE, DELETE.
SELECT has_table_privilege(%(oid)s::oid, 'SELECT'), has_table_privilege(%(oid)s::oid, 'INSERT'),
       has_table_privilege(%(oid)s::oid, 'UPDATE'), has_table_privilege(%(oid)s::oid, 'DELETE')
