-- Every statement that this dialect sends, in the 9.2 dialect that DWS speaks.
-- Calls of pgxc_* functions stand as the vendor documents them (GaussDB(DWS) "Hybrid data warehouse functions").

-- name: look
-- Both points of a slot on one DN (or on all with node 0), the newest sync point, its xmin, and which table it is: with
-- its key, because another key makes other rows of the same changes. Columns are told with their numbers, the key by the
-- numbers of its columns: those of its constraint, which are without the ones that its index only includes.
-- The documented function creates a slot that does not exist. Kernel 9.1.0.200 or newer.
SELECT s.checkpoint, s.node_name, s.node_id, s.last_sync_point, s.latest_sync_point, s.xmin, t.oid, t.columns,
       t.key
FROM (
    SELECT false AS checkpoint, node_name, node_id, last_sync_point, latest_sync_point, xmin
    FROM pgxc_get_binlog_sync_point(%(table)s, %(slot)s, false, %(node)s)
    UNION ALL
    SELECT true AS checkpoint, node_name, node_id, last_sync_point, latest_sync_point, xmin
    FROM pgxc_get_binlog_sync_point(%(table)s, %(slot)s, true, %(node)s)
) s
CROSS JOIN (
    SELECT a.attrelid::bigint AS oid,
           string_agg(a.attname || chr(30) || format_type(a.atttypid, a.atttypmod) || chr(30) || a.attnum, chr(31)
                      ORDER BY a.attnum) AS columns,
           (SELECT array_to_string(k.conkey, ' ') FROM pg_constraint k
            WHERE k.conrelid = a.attrelid AND k.contype = 'p') AS key
    FROM pg_attribute a
    WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY a.attrelid
) t

-- name: identity
-- Table, columns in order and key columns in key order; no binlog function, so nothing is created.
SELECT a.attrelid::bigint AS oid, a.attname, format_type(a.atttypid, a.atttypmod) AS type,
       (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())::bigint AS database_oid,
       coalesce((SELECT k.place FROM (
            SELECT i.indkey[n] AS attnum, n AS place
            FROM pg_index i, generate_series(0, 31) n
            WHERE i.indrelid = a.attrelid AND i.indisprimary AND n < i.indnatts) k
        WHERE k.attnum = a.attnum), -1) AS key_place
FROM pg_attribute a
WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum

-- name: user_types
-- Types of a table's columns (or of their elements) that are not the server's own: name, kind (d domain, e enum, c
-- composite, ...), a domain's base type, and the labels of an enum or the attributes of a composite.
SELECT format_type(t.oid, NULL), t.typtype::text,
       CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) END,
       CASE t.typtype
           WHEN 'e' THEN array_to_string(ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid
                                               ORDER BY e.enumsortorder), chr(31))
           WHEN 'c' THEN array_to_string(ARRAY(SELECT quote_ident(p.attname) || ' ' || format_type(p.atttypid, p.atttypmod)
                                               FROM pg_attribute p WHERE p.attrelid = t.typrelid AND p.attnum > 0
                                               AND NOT p.attisdropped ORDER BY p.attnum), chr(31)) END
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE n.nspname <> 'pg_catalog' AND t.oid IN (
    SELECT CASE WHEN c.typtype = 'b' AND c.typcategory = 'A' THEN c.typelem ELSE c.oid END
    FROM pg_attribute a JOIN pg_type c ON c.oid = a.atttypid
    WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped)
ORDER BY 1

-- name: deferrable_key
-- Whether the primary key is deferrable: then two rows may share a key inside a transaction.
SELECT count(*) FROM pg_constraint c
WHERE c.conrelid = %(table)s::regclass AND c.contype = 'p' AND c.condeferrable

-- name: nodes
-- The DNs of the cluster, and whether the table lies on each; no slot is touched. DWS, PGXC_CLASS: nodeoids is the list
-- of the nodes over which a table is distributed, by their oids in PGXC_NODE. In a logical cluster these are fewer than
-- all. The list's own type has no operators that are documented, so it is read as text.
SELECT n.node_name, n.node_id, coalesce((
    SELECT ' ' || c.nodeoids::text || ' ' LIKE '%% ' || n.oid::text || ' %%'
    FROM pgxc_class c WHERE c.pcrelid = %(table)s::regclass), true)
FROM pgxc_node n WHERE n.node_type = 'D' ORDER BY n.node_id

-- name: all_nodes
-- The DNs of the cluster, where it is not told on which of them a table lies.
SELECT node_name, node_id FROM pgxc_node WHERE node_type = 'D' ORDER BY node_id

-- name: changes
-- A range of one DN's binlog in its own columns. Whether the bounds are inclusive is not documented: one point more
-- is asked for on each side than is wanted, and the filter decides.
SELECT {point}, {sequence}, {type}, {columns}
FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE {point} <= {up_to} AND ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence})){only}

-- name: has_changes
-- Whether there is one row at all in a range of at most a step's width: LIMIT does not bound what the function reads.
SELECT 1
FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE {point} <= {up_to} AND ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence}))
LIMIT 1

-- name: register
-- Returns the number of nodes registered (documented); anything but 1 for one node is a partial registration.
SELECT pgxc_register_binlog_sync_point(%(table)s, %(slot)s, %(node)s, %(point)s, %(checkpoint)s, %(xmin)s)

-- name: xmin_at
-- The xmin of the first record at or after a sync point, with that record's own point (inclusive by the example).
SELECT binlog_sync_point, binlog_xmin FROM pgxc_get_binlog_cursor_by_syncpoint(%(table)s, %(point)s, %(node)s)

-- name: slots
-- Slots of a table, without creating any. Kernel 9.1.0.223 or newer.
SELECT node_name, slot_name, sync_point, sync_timestamp, oldest_xmin, is_checkpoint
FROM pgxc_get_binlog_slots(%(table)s, 0)

-- name: consume_progress
-- Unread rows per DN, slot and flag. Kernel 9.1.0.223 or newer for tables without binlog timestamps.
SELECT node_name, node_id, slot_name, checkpoint, latest_consumed_csn, latest_csn, unconsumed_binlog_count
FROM pgxc_get_binlog_consume_progress(%(table)s, 0)

-- name: drop_slot
-- Returns the total number of slots cleared on all nodes. Kernel 9.1.0.223 or newer.
SELECT pgxc_binlog_clear_target_slot(%(table)s, %(slot)s)

-- name: open_transactions
-- Every other session that is inside a transaction, and whether any session's activity is hidden from this user.
-- Every transaction locks its own virtual id, and locks are not hidden: a hidden one that has no number yet (it only read
-- so far) holds back no xmin, but may write later under a snapshot that is older than the slot.
SELECT a.pid, coalesce(extract(epoch FROM a.xact_start)::text, l.virtualtransaction) AS started,
       a.usename, a.application_name, a.state, (a.query = '<insufficient privilege>') AS hidden
FROM pg_stat_activity a
LEFT JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'virtualxid' AND l.virtualxid = l.virtualtransaction
WHERE a.pid <> pg_backend_pid() AND a.datname = current_database()
  AND a.query NOT LIKE 'autovacuum:%%'
  AND (a.xact_start IS NOT NULL OR a.query = '<insufficient privilege>')

-- name: end_sessions
-- Ends our own sessions of earlier epochs; only the same login's, by the name that we gave them. Never the session that
-- holds the lease: it is the sink's, which may be this very database.
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
  AND application_name LIKE %(pattern)s AND application_name <> %(own)s AND application_name NOT LIKE '%%/lease'

-- name: sessions_left
-- How many of those sessions are still there.
SELECT count(*) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
  AND application_name LIKE %(pattern)s AND application_name <> %(own)s AND application_name NOT LIKE '%%/lease'

-- name: transaction_id
-- The cluster's transaction counter now: a DN whose xmin is beyond it has no older transaction open.
SELECT txid_current()

-- name: count_rows
-- The planner's idea of how many rows a table has; for progress only.
SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = %(table)s::regclass
