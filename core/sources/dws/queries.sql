-- The statements of jobs for DWS, in the SQL dialect of DWS (PostgreSQL 9.2). Calls of pgxc_* functions are written as
-- the vendor documents them (GaussDB(DWS), "Hybrid data warehouse functions").

-- name: status
-- Return both points of a slot on one DN (or on all DNs with node 0), the newest sync point, its xmin, and the identity
-- of the table. The identity includes the key, because with another key the same changes lead to other rows. Columns
-- are returned with their numbers, and the key as the numbers of its columns: the columns of the constraint, without
-- those that the index only includes. The documented function creates a slot that does not exist. Kernel 9.1.0.200 or
-- newer. format_type omits the schema of a type that is visible through the search_path; the schema is added again, so
-- that a type is written in the same way in every session. Names are returned in arrays, because a name can contain any
-- character.
SELECT s.checkpoint, s.node_name, s.node_id, s.last_sync_point, s.latest_sync_point, s.xmin, t.oid, t.names, t.types,
       t.numbers, t.key
FROM (
    SELECT false AS checkpoint, node_name, node_id, last_sync_point, latest_sync_point, xmin
    FROM pgxc_get_binlog_sync_point(%(table)s, %(slot)s, false, %(node)s)
    UNION ALL
    SELECT true AS checkpoint, node_name, node_id, last_sync_point, latest_sync_point, xmin
    FROM pgxc_get_binlog_sync_point(%(table)s, %(slot)s, true, %(node)s)
) s
CROSS JOIN (
    SELECT a.attrelid::bigint AS oid,
           array_agg(a.attname::text ORDER BY a.attnum) AS names,
           array_agg(CASE WHEN n.nspname = 'pg_catalog' OR position(quote_ident(n.nspname) || '.' IN format_type(a.atttypid, a.atttypmod)) = 1
                     THEN '' ELSE quote_ident(n.nspname) || '.' END || format_type(a.atttypid, a.atttypmod)
                     ORDER BY a.attnum) AS types,
           array_agg(a.attnum::integer ORDER BY a.attnum) AS numbers,
           (SELECT k.conkey::integer[] FROM pg_constraint k
            WHERE k.conrelid = a.attrelid AND k.contype = 'p') AS key
    FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid JOIN pg_namespace n ON n.oid = y.typnamespace
    WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY a.attrelid
) t

-- name: status_of
-- The part of `statuses` for one table; {number} stands for the table.
SELECT {number} AS number, {table}::regclass AS rel, false AS checkpoint, node_name, node_id, last_sync_point,
       latest_sync_point, xmin
FROM pgxc_get_binlog_sync_point({table}, {slot}, false, 0)
UNION ALL
SELECT {number}, {table}::regclass, true, node_name, node_id, last_sync_point, latest_sync_point, xmin
FROM pgxc_get_binlog_sync_point({table}, {slot}, true, 0)

-- name: statuses
-- Return the number that stands for a table, and the columns of `status`, for several tables and all DNs.
SELECT s.number, s.checkpoint, s.node_name, s.node_id, s.last_sync_point, s.latest_sync_point, s.xmin, t.oid, t.names,
       t.types, t.numbers, t.key
FROM ({each}) s
JOIN (
    SELECT a.attrelid AS rel, a.attrelid::bigint AS oid,
           array_agg(a.attname::text ORDER BY a.attnum) AS names,
           array_agg(CASE WHEN n.nspname = 'pg_catalog' OR position(quote_ident(n.nspname) || '.' IN format_type(a.atttypid, a.atttypmod)) = 1
                     THEN '' ELSE quote_ident(n.nspname) || '.' END || format_type(a.atttypid, a.atttypmod)
                     ORDER BY a.attnum) AS types,
           array_agg(a.attnum::integer ORDER BY a.attnum) AS numbers,
           (SELECT k.conkey::integer[] FROM pg_constraint k
            WHERE k.conrelid = a.attrelid AND k.contype = 'p') AS key
    FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid JOIN pg_namespace n ON n.oid = y.typnamespace
    WHERE a.attrelid IN ({tables}) AND a.attnum > 0 AND NOT a.attisdropped
    GROUP BY a.attrelid
) t ON t.rel = s.rel

-- name: identity
-- Return the table, its columns in order, and its key columns in key order. No binlog function is called, so nothing is
-- created. `type` is written as in `status`. The conkey of a primary key contains its columns in key order, without
-- those that its index only includes (DWS, PG_CONSTRAINT: the columns that it constrains). `required` ignores a NOT
-- NULL that is not validated or not inherited. `collation` is set if it is not the type's own, and for a domain (whose
-- collation can differ from that of its base type). The number of a column is never reused.
SELECT a.attrelid::bigint AS oid, a.attname,
       CASE WHEN n.nspname = 'pg_catalog' OR position(quote_ident(n.nspname) || '.' IN format_type(a.atttypid, a.atttypmod)) = 1
            THEN '' ELSE quote_ident(n.nspname) || '.' END || format_type(a.atttypid, a.atttypmod) AS type,
       (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())::bigint AS database_oid,
       coalesce((SELECT k.place FROM (
            SELECT c.conkey[p] AS attnum, p AS place
            FROM pg_constraint c, generate_series(1, 32) p
            WHERE c.conrelid = a.attrelid AND c.contype = 'p' AND p <= array_upper(c.conkey, 1)) k
        WHERE k.attnum = a.attnum), -1) AS key_place,
       a.attnotnull AND NOT EXISTS (
            SELECT 1 FROM pg_constraint c WHERE c.conrelid = a.attrelid AND c.contype = 'n'
            AND c.conkey[1] = a.attnum AND (NOT c.convalidated OR c.connoinherit)) AS required,
       (SELECT quote_ident(s.nspname) || '.' || quote_ident(l.collname)
        FROM pg_collation l JOIN pg_namespace s ON s.oid = l.collnamespace
        WHERE l.oid = a.attcollation AND l.collname <> 'default'
          AND (y.typtype = 'd' OR a.attcollation <> y.typcollation)) AS collation,
       a.attnum::integer
FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid JOIN pg_namespace n ON n.oid = y.typnamespace
WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum

-- name: user_types
-- Return the types of a table's columns that are not built in. (An array is in the schema of its elements.)
SELECT DISTINCT a.atttypid::bigint
FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid JOIN pg_namespace n ON n.oid = y.typnamespace
WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname <> 'pg_catalog'

-- name: key_operators
-- Return the operators of the key's own index: column, strategy (1 to 5), schema, name. DWS, PG_INDEX, PG_OPCLASS,
-- PG_AMOP: vectors count from 0; a column that the index only includes has no operator class.
SELECT a.attname::text, s.amopstrategy, n.nspname::text, o.oprname::text
FROM pg_index i CROSS JOIN generate_series(0, 31) place
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[place]
JOIN pg_opclass c ON c.oid = i.indclass[place]
JOIN pg_amop s ON s.amopfamily = c.opcfamily AND s.amoplefttype = c.opcintype AND s.amoprighttype = c.opcintype
JOIN pg_operator o ON o.oid = s.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
WHERE i.indrelid = %(table)s::regclass AND i.indisprimary AND s.amopstrategy BETWEEN 1 AND 5
ORDER BY place, s.amopstrategy

-- name: made_casts
-- Return columns with a cast to a built-in type that calls a function, and the name of that function, except functions
-- in pg_catalog and those of the server's installer (oid 10). The function runs as the user of the cast. DWS, PG_CAST,
-- PG_PROC.
SELECT a.attname::text, p.oid::regprocedure::text
FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
JOIN pg_cast k ON k.castsource IN (y.oid, y.typbasetype) JOIN pg_type t ON t.oid = k.casttarget
JOIN pg_namespace m ON m.oid = t.typnamespace AND m.nspname = 'pg_catalog'
JOIN pg_proc p ON p.oid = k.castfunc JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND n.nspname <> 'pg_catalog' AND p.proowner <> 10
ORDER BY a.attnum, 2

-- name: implicit_casts
-- Return key columns with an implicit cast that calls a function, and that function, except functions in pg_catalog and
-- those of the server's installer. The server can choose an operator for such a column by the result type of the cast.
-- DWS, PG_CAST: castcontext i.
SELECT a.attname::text, p.oid::regprocedure::text
FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
JOIN pg_constraint c ON c.conrelid = a.attrelid AND c.contype = 'p' AND a.attnum = ANY (c.conkey)
JOIN pg_cast k ON k.castsource IN (y.oid, y.typbasetype) AND k.castcontext = 'i'
JOIN pg_proc p ON p.oid = k.castfunc JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND n.nspname <> 'pg_catalog' AND p.proowner <> 10
ORDER BY a.attnum, 2

-- name: deferrable_key
-- Return whether the primary key is deferrable: two rows can then have the same key inside a transaction.
SELECT count(*) FROM pg_constraint c
WHERE c.conrelid = %(table)s::regclass AND c.contype = 'p' AND c.condeferrable

-- name: nodes
-- Return the DNs of the cluster, and whether each of them holds the table; no slot is touched. DWS, PGXC_CLASS:
-- nodeoids is the list of the nodes over which a table is distributed, by their oids in PGXC_NODE. In a logical
-- cluster, these are not all nodes. No operators are documented for the list's type, so it is read as text.
SELECT n.node_name, n.node_id, coalesce((
    SELECT ' ' || c.nodeoids::text || ' ' LIKE '%% ' || n.oid::text || ' %%'
    FROM pgxc_class c WHERE c.pcrelid = %(table)s::regclass), true)
FROM pgxc_node n WHERE n.node_type = 'D' ORDER BY n.node_id

-- name: all_nodes
-- Return the DNs of the cluster, for a server that does not report which of them hold a table.
SELECT node_name, node_id FROM pgxc_node WHERE node_type = 'D' ORDER BY node_id

-- name: changes
-- Return a range of one DN's binlog with its own columns. It is not documented whether the bounds are inclusive, so the
-- range is requested with one extra point on each side, and the condition selects the rows.
SELECT {point}, {sequence}, {type}, {columns}
FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE {point} <= {up_to} AND ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence})){only}

-- name: has_changes
-- Return whether a range of at most one step's width has a row: LIMIT does not limit what the function reads.
SELECT 1
FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE {point} <= {up_to} AND ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence}))
LIMIT 1

-- name: register
-- Return the number of nodes registered (documented); for one node, any number except 1 is a partial registration.
SELECT pgxc_register_binlog_sync_point(%(table)s, %(slot)s, %(node)s, %(point)s, %(checkpoint)s, %(xmin)s)

-- name: full_sync
-- Move both points of every DN to the newest sync point; the result is not documented.
SELECT * FROM pgxc_register_full_sync_point(%(table)s, %(slot)s)

-- name: xmin_at
-- Return the xmin of the first record at or after a sync point, and that record's own point (inclusive according to the
-- vendor's example).
SELECT binlog_sync_point, binlog_xmin FROM pgxc_get_binlog_cursor_by_syncpoint(%(table)s, %(point)s, %(node)s)

-- name: news
-- Return the number that stands for a table if a DN has a record at or after a sync point. Several of these statements
-- are one message.
SELECT {number} FROM pgxc_get_binlog_cursor_by_syncpoint({table}, {point}, 0) WHERE binlog_sync_point IS NOT NULL

-- name: slots
-- Return the slots of a table without creating a slot. Kernel 9.1.0.223 or newer.
SELECT node_name, slot_name, sync_point, sync_timestamp, oldest_xmin, is_checkpoint
FROM pgxc_get_binlog_slots(%(table)s, 0)

-- name: consume_progress
-- Return the unread rows per DN, slot and checkpoint flag. Kernel 9.1.0.223 or newer for tables without binlog
-- timestamps.
SELECT node_name, node_id, slot_name, checkpoint, latest_consumed_csn, latest_csn, unconsumed_binlog_count
FROM pgxc_get_binlog_consume_progress(%(table)s, 0)

-- name: drop_slot
-- Return the total number of slots cleared on all nodes. Kernel 9.1.0.223 or newer.
SELECT pgxc_binlog_clear_target_slot(%(table)s, %(slot)s)

-- name: end_sessions
-- End the job's own sessions of earlier epochs: only sessions of the same login, by the application name that
-- Slotkeeper gave them. Never end the session that holds the lease: it belongs to the sink, which can be this database.
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
  AND application_name LIKE %(pattern)s AND application_name <> %(own)s AND application_name NOT LIKE '%%/lease'

-- name: sessions_left
-- Return how many sessions of `end_sessions` still exist, as far as this coordinator shows; `left_across` in sight.sql
-- checks all coordinators.
SELECT count(*) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
  AND application_name LIKE %(pattern)s AND application_name <> %(own)s AND application_name NOT LIKE '%%/lease'

-- name: transaction_id
-- Return the cluster's current transaction counter: a DN whose xmin exceeds it has no older open transaction.
SELECT txid_current()
