-- What only `doctor --probe` sends: about its own scratch tables, and before them about where they may be made.
-- Calls of the binlog functions that the reader sends as well stand in queries.sql.

-- name: place
-- Schemas in which this user may make tables: its own first, then public, then by name; never the server's own.
SELECT n.nspname::text FROM pg_namespace n
WHERE has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE')
  AND n.nspname NOT LIKE 'pg\_%%' AND n.nspname NOT LIKE 'dws\_rel\_%%' AND n.nspname NOT LIKE 'dbms\_%%' AND n.nspname NOT LIKE 'utl\_%%'
  AND n.nspname NOT IN ('information_schema', 'dws', 'cstore', 'sys', 'pmk', 'gs_logical_cluster', 'coverage')
ORDER BY n.nspname <> current_user, n.nspname <> 'public', n.nspname

-- name: leftovers
-- Tables of earlier probes, with their owners.
SELECT n.nspname::text, c.relname::text, pg_get_userbyid(c.relowner)::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname LIKE 'slotkeeper\_probe\_%%' AND c.relkind IN ('r', 'p')
ORDER BY 1, 2

-- name: stand_in
-- Whether this is our stand-in, which takes the statements that PostgreSQL cannot parse as text.
SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'dws' AND p.proname = 'ddl'

-- name: make
-- DWS "Creating an HStore table", "Subscribing to Hybrid Data Warehouse Binlog": a key, HStore-opt, hash distribution.
-- A short binlog_ttl, so that the slots of a table that stayed behind end by themselves.
CREATE TABLE {table} (place bigint NOT NULL, id bigint NOT NULL, v text, PRIMARY KEY (place, id)) WITH (orientation = column, enable_hstore_opt = on, {binlog} = on, binlog_ttl = 3600) DISTRIBUTE BY HASH (place)

-- name: make_parts
-- DWS, CREATE TABLE PARTITION: the same in three partitions by range of the key's second column.
CREATE TABLE {table} (place bigint NOT NULL, id bigint NOT NULL, v text, PRIMARY KEY (place, id)) WITH (orientation = column, enable_hstore_opt = on, enable_binlog = on, binlog_ttl = 3600) DISTRIBUTE BY HASH (place) PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (100), PARTITION mid VALUES LESS THAN (200), PARTITION high VALUES LESS THAN (MAXVALUE))

-- name: ask_slot
-- One flag of a slot on all DNs, as documented.
SELECT node_name, node_id, last_sync_point, latest_sync_point, xmin
FROM pgxc_get_binlog_sync_point(%(table)s, %(slot)s, %(checkpoint)s, 0)

-- name: raw_changes
-- A range as the server gives it: its own names of columns, no condition, no order.
SELECT * FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})

-- name: register_all
-- One point on all DNs.
SELECT pgxc_register_binlog_sync_point(%(table)s, %(slot)s, 0, %(point)s, %(checkpoint)s, %(xmin)s)

-- name: by_syncpoint
-- The first record of one DN at or after a point.
SELECT binlog_sync_point, binlog_xmin FROM pgxc_get_binlog_cursor_by_syncpoint(%(table)s, %(point)s, %(node)s)

-- name: by_timestamp
-- The first record of one DN at or after a time in microseconds since 1970.
SELECT binlog_sync_point, binlog_timestamp_us
FROM pgxc_get_binlog_cursor_by_timestamp(%(table)s, timestamptz 'epoch' + %(us)s * interval '1 microsecond', %(node)s)

-- name: node_of
-- The DN of each row by the system column.
SELECT t.place, t.xc_node_id FROM {table} t

-- name: consumed_records
-- 1 where every point of every slot is past the newest record of all DNs; a pure question.
SELECT pgxc_consumed_binlog_records(%(table)s, 0)

-- name: coordinators
-- The coordinators, which of them this is, and where they listen. DWS, PGXC_NODE; "pgxc_node_name" is the node's own name.
SELECT n.node_name, n.node_name = (SELECT s.setting FROM pg_settings s WHERE s.name = 'pgxc_node_name'),
       n.node_host, n.node_port
FROM pgxc_node n WHERE n.node_type = 'C' ORDER BY 1
