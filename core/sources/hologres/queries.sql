-- The statements that this dialect sends by SQL. Hologres is compatible with PostgreSQL 11. hg_* functions and
-- hologres.* tables are used as the vendor documents them ("Subscribe to Hologres binlogs"), and joined as in its
-- published client (ConnectionUtil).

-- name: table
-- Return the identity of a table from the catalogs, including its key, and the server's clock, which determines when
-- records are deleted. Names are returned in arrays, because a name can contain any character; the key is returned as
-- the numbers of its columns.
SELECT a.attrelid::bigint,
       (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())::bigint,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       array_agg(a.attname::text ORDER BY a.attnum),
       array_agg(CASE WHEN n.nspname = 'pg_catalog' OR position(quote_ident(n.nspname) || '.' IN format_type(a.atttypid, a.atttypmod)) = 1
                 THEN '' ELSE quote_ident(n.nspname) || '.' END || format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum),
       array_agg(a.attnotnull ORDER BY a.attnum),
       array_agg(a.attnum::integer ORDER BY a.attnum),
       (SELECT k.conkey::integer[] FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'p')
FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid JOIN pg_namespace n ON n.oid = y.typnamespace
WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped
GROUP BY a.attrelid

-- name: exists
-- Return the kind of the relation with this name and whether this login can read it; no row if there is no such
-- relation.
SELECT c.relkind::text, has_table_privilege(c.oid, 'SELECT'), has_schema_privilege(n.oid, 'USAGE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: listed
-- Return tables and views by schema and name: kind, privileges, whether there is a primary key, and the level of the
-- binlog. Without schemas, all but system schemas; the server's own objects have oids below 16384 (PostgreSQL, "System
-- Catalog Initial Data", OID assignment), except the schema public.
SELECT n.nspname::text, c.relname::text, c.relkind::text, has_table_privilege(c.oid, 'SELECT'),
       has_schema_privilege(n.oid, 'USAGE'),
       EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p'),
       (SELECT p.property_value::text FROM hologres.hg_table_properties p WHERE p.table_namespace = n.nspname
        AND p.table_name = c.relname AND p.property_key = 'binlog.level')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (n.oid >= 16384 OR n.nspname = 'public')
  AND n.nspname NOT LIKE 'pg\_%%' AND n.nspname NOT IN ('hologres', 'hologres_statistic', 'hologres_streaming_mv')
  AND (%(every)s OR n.nspname = ANY (%(schemas)s))
ORDER BY 1, 2

-- name: properties
-- Return the properties of a table in Hologres: table_id, schema_version, orientation, binlog.level, binlog.ttl,
-- distribution_key, and the shard count of its table group.
SELECT property_key::text, property_value::text FROM hologres.hg_table_properties
WHERE table_namespace = %(schema)s AND table_name = %(name)s
UNION ALL
SELECT 'shard_count', g.property_value::text
FROM hologres.hg_table_properties t, hologres.hg_table_group_properties g
WHERE t.property_key = 'table_group' AND g.property_key = 'shard_count' AND t.property_value = g.tablegroup_name
  AND t.table_namespace = %(schema)s AND t.table_name = %(name)s

-- name: cursor
-- Return the oldest or the newest record of a shard; LSN 0 (or no row) if the shard has no record.
SELECT hg_binlog_lsn, hg_binlog_timestamp_us FROM hg_get_binlog_cursor(%(table)s, %(which)s, %(shard)s)

-- name: cursor_by_lsn
-- Return the first record at or after an LSN; if there is none, the time is the current time.
SELECT hg_binlog_lsn, hg_binlog_timestamp_us FROM hg_get_binlog_cursor_by_lsn(%(table)s, %(lsn)s, %(shard)s)

-- name: cursor_by_time
-- Return the first record at or after a time; past the end, the LSN is that of the next write. A future time is an
-- error.
SELECT hg_binlog_lsn, hg_binlog_timestamp_us
FROM hg_get_binlog_cursor_by_timestamp(%(table)s, %(at)s::timestamptz, %(shard)s)

-- name: page
-- Return a page of one shard's binlog in its own order. A condition on hg_binlog_lsn routes the query to the binlog,
-- which is stored in this order; conditions on other columns would read the whole binlog.
SELECT hg_binlog_lsn, hg_binlog_event_type, hg_binlog_timestamp_us{columns}
FROM {table} WHERE hg_shard_id = {shard} AND hg_binlog_lsn > {after} AND hg_binlog_lsn <= {up_to}
ORDER BY hg_binlog_lsn LIMIT {most}

-- name: back_page
-- Return the last records up to an LSN, newest first.
SELECT hg_binlog_lsn, hg_binlog_event_type, hg_binlog_timestamp_us{columns}
FROM {table} WHERE hg_shard_id = {shard} AND hg_binlog_lsn > {after} AND hg_binlog_lsn <= {up_to}
ORDER BY hg_binlog_lsn DESC LIMIT {most}

-- name: nth
-- Return the n-th record after an LSN.
SELECT hg_binlog_lsn, hg_binlog_timestamp_us
FROM {table} WHERE hg_shard_id = {shard} AND hg_binlog_lsn > {after} AND hg_binlog_lsn <= {up_to}
ORDER BY hg_binlog_lsn LIMIT 1 OFFSET {skipped}

-- name: count
-- Return the number of records in a range by type.
SELECT hg_binlog_event_type, count(hg_binlog_lsn), min(hg_binlog_lsn), min(hg_binlog_timestamp_us)
FROM {table} WHERE hg_shard_id = {shard} AND hg_binlog_lsn > {after} AND hg_binlog_lsn <= {up_to}
GROUP BY hg_binlog_event_type

-- name: server
-- Return the server's version and clock, and the login's user and whether it is a superuser.
SELECT hg_version(), current_user::text, extract(epoch FROM clock_timestamp()),
       (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)

-- name: clock
-- Return the server's clock.
SELECT extract(epoch FROM clock_timestamp())

-- name: followed
-- Return how many tables of this database have a binlog.
SELECT count(*) FROM hologres.hg_table_properties WHERE property_key = 'binlog.level' AND property_value = 'replica'

-- name: slots
-- Return the slots that read a table through its publication, as the published client lists them.
SELECT p.slot_name::text, p.property_value::text
FROM hologres.hg_replication_slot_properties p JOIN pg_publication_tables t ON t.pubname = p.property_value
WHERE t.schemaname = %(schema)s AND t.tablename = %(name)s ORDER BY 1

-- name: superuser
-- Hologres, "Manage queries": a Superuser sees the queries of all users.
SELECT rolsuper FROM pg_roles WHERE rolname = current_user

-- name: lock_pairs
-- Return each session that waits for a lock of these tables, paired with each session that holds a lock there
-- (Hologres, "Locks": pg_locks of its front end). Only system views are read, so that the statement never waits for a
-- lock on a user's table.
SELECT n.nspname || '.' || c.relname, w.mode, h.mode,
       coalesce(extract(epoch FROM clock_timestamp() - wa.query_start), 0)::float8,
       w.pid, wa.usename::text, wa.application_name, wa.state,
       extract(epoch FROM clock_timestamp() - wa.xact_start)::float8, wa.query,
       extract(epoch FROM wa.backend_start)::float8,
       h.pid, ha.usename::text, ha.application_name, ha.state,
       extract(epoch FROM clock_timestamp() - ha.xact_start)::float8, ha.query,
       extract(epoch FROM ha.backend_start)::float8
FROM pg_locks w
JOIN pg_locks h ON h.granted AND h.locktype = 'relation' AND h.database = w.database AND h.relation = w.relation AND h.pid <> w.pid
JOIN pg_class c ON c.oid = w.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_activity wa ON wa.pid = w.pid
LEFT JOIN pg_stat_activity ha ON ha.pid = h.pid
WHERE NOT w.granted AND w.locktype = 'relation' AND n.nspname || '.' || c.relname = ANY (%(tables)s)
  AND ha.application_name LIKE 'slotkeeper/%%'
