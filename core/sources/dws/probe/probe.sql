-- The statements that only `doctor --probe` sends, about its own scratch tables and about the schema for them. Calls of
-- binlog functions that the reader also sends are in queries.sql.

-- name: place
-- Return schemas in which this user can create tables: the user's own first, then public, then by name; never a schema
-- of the server.
SELECT n.nspname::text FROM pg_namespace n
WHERE has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE')
  AND n.nspname NOT LIKE 'pg\_%%' AND n.nspname NOT LIKE 'dws\_rel\_%%' AND n.nspname NOT LIKE 'dbms\_%%' AND n.nspname NOT LIKE 'utl\_%%'
  AND n.nspname NOT IN ('information_schema', 'dws', 'cstore', 'sys', 'pmk', 'gs_logical_cluster', 'coverage')
ORDER BY n.nspname <> current_user, n.nspname <> 'public', n.nspname

-- name: leftovers
-- Return the tables of earlier probes with their owners.
SELECT n.nspname::text, c.relname::text, pg_get_userbyid(c.relowner)::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname LIKE 'slotkeeper\_probe\_%%' AND c.relkind IN ('r', 'p')
ORDER BY 1, 2

-- name: stand_in
-- Return whether this server is the stand-in, which receives as text the statements that PostgreSQL cannot parse.
SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'dws' AND p.proname = 'ddl'

-- name: make
-- DWS, "Creating an HStore table", "Subscribing to Hybrid Data Warehouse Binlog": a key, HStore-opt, hash distribution.
-- binlog_ttl is short, so that the slots of a table that could not be dropped expire.
CREATE TABLE {table} (place bigint NOT NULL, id bigint NOT NULL, v text, PRIMARY KEY (place, id)) WITH (orientation = column, enable_hstore_opt = on, {binlog} = on, binlog_ttl = 3600) DISTRIBUTE BY HASH (place)

-- name: make_parts
-- DWS, CREATE TABLE PARTITION: the same table with three range partitions by the key's second column.
CREATE TABLE {table} (place bigint NOT NULL, id bigint NOT NULL, v text, PRIMARY KEY (place, id)) WITH (orientation = column, enable_hstore_opt = on, enable_binlog = on, binlog_ttl = 3600) DISTRIBUTE BY HASH (place) PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (100), PARTITION mid VALUES LESS THAN (200), PARTITION high VALUES LESS THAN (MAXVALUE))

-- name: ask_slot
-- Return one flag of a slot on all DNs, as documented.
SELECT node_name, node_id, last_sync_point, latest_sync_point, xmin
FROM pgxc_get_binlog_sync_point(%(table)s, %(slot)s, %(checkpoint)s, 0)

-- name: raw_changes
-- Return a range as the server returns it: with its own column names, without a condition or an order.
SELECT * FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})

-- name: register_all
-- Register one point on all DNs.
SELECT pgxc_register_binlog_sync_point(%(table)s, %(slot)s, 0, %(point)s, %(checkpoint)s, %(xmin)s)

-- name: by_syncpoint
-- Return the first record of one DN at or after a point.
SELECT binlog_sync_point, binlog_xmin FROM pgxc_get_binlog_cursor_by_syncpoint(%(table)s, %(point)s, %(node)s)

-- name: by_timestamp
-- Return the first record of one DN at or after a time in microseconds since 1970.
SELECT binlog_sync_point, binlog_timestamp_us
FROM pgxc_get_binlog_cursor_by_timestamp(%(table)s, timestamptz 'epoch' + %(us)s * interval '1 microsecond', %(node)s)

-- name: node_of
-- Return the DN of each row from the system column.
SELECT t.place, t.xc_node_id FROM {table} t

-- name: consumed_records
-- Return 1 if every point of every slot is after the newest record of all DNs; changes nothing.
SELECT pgxc_consumed_binlog_records(%(table)s, 0)

-- name: coordinators
-- Return the coordinators, which of them this session uses, and their addresses. DWS, PGXC_NODE; "pgxc_node_name" is
-- the name of the session's own node.
SELECT n.node_name, n.node_name = (SELECT s.setting FROM pg_settings s WHERE s.name = 'pgxc_node_name'),
       n.node_host, n.node_port
FROM pgxc_node n WHERE n.node_type = 'C' ORDER BY 1
