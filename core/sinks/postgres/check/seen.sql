-- What a check of targets reads: catalogs for all of them at once, a bounded look at the rows of each. No lock but that of a
-- SELECT. {schemas} and {names} are the targets, {places} their numbers; {rows} has one SELECT per target. Values
-- are literals: a name may hold a percent sign.

-- name: seen
-- One row per target that is there. Names of pg_get_expr and the like depend on the search_path, which is pinned.
-- PostgreSQL, "System Catalogs": pg_class.relfilenode changes with VACUUM FULL, CLUSTER and TRUNCATE, oid with none of them.
-- The triggers of foreign keys are internal ones of both tables, so that a key that points here shows as well.
WITH RECURSIVE wanted AS (
    SELECT w.place, c.oid FROM unnest({places}::int[], {schemas}::text[], {names}::text[]) w(place, schema, name)
    JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name),
tree AS (
    SELECT place, oid, 0::oid AS parent FROM wanted
    UNION
    SELECT t.place, i.inhrelid, i.inhparent FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid),
shape AS (
    SELECT t.place, array_agg(DISTINCT c.oid::bigint) AS members,
        md5(string_agg(concat_ws(':', c.oid, c.relfilenode), ',' ORDER BY c.oid)) AS files,
        bool_or(c.reltuples > 0 AND c.relkind <> 'p') AS counted,
        md5(string_agg((SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation,
                a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid)), ',' ORDER BY a.attnum)
            FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), ';' ORDER BY c.oid)) AS columns,
        md5(string_agg((SELECT string_agg(concat_ws(' ', g.tgname, g.tgfoid, g.tgtype, g.tgenabled), ',' ORDER BY g.tgname)
            FROM pg_trigger g WHERE g.tgrelid = c.oid), ';' ORDER BY c.oid)) AS triggers,
        md5(string_agg((SELECT string_agg(concat_ws(' ', r.rulename, r.ev_enabled, r.ev_action), ',' ORDER BY r.rulename)
            FROM pg_rewrite r WHERE r.ev_class = c.oid), ';' ORDER BY c.oid)) AS rules,
        md5(string_agg(concat_ws(' ', c.relrowsecurity, c.relforcerowsecurity, row_security_active(c.oid),
            (SELECT string_agg(concat_ws(' ', p.polname, p.polcmd, p.polpermissive, p.polroles, pg_get_expr(p.polqual, c.oid),
                pg_get_expr(p.polwithcheck, c.oid)), ',' ORDER BY p.polname)
             FROM pg_policy p WHERE p.polrelid = c.oid)), ';' ORDER BY c.oid)) AS security,
        md5(string_agg((SELECT string_agg(concat_ws(' ', k.conname, k.contype, k.condeferrable, pg_get_constraintdef(k.oid)),
                ',' ORDER BY k.conname)
            FROM pg_constraint k WHERE k.conrelid = c.oid), ';' ORDER BY c.oid)) AS constraints,
        md5(string_agg((SELECT string_agg(pg_get_indexdef(i.indexrelid) || i.indisvalid || i.indimmediate, ',' ORDER BY i.indexrelid)
            FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion OR i.indexprs IS NOT NULL
                OR i.indpred IS NOT NULL)), ';' ORDER BY c.oid)) AS indexes,
        md5(string_agg(concat_ws(' ', t.parent, c.oid, pg_get_expr(c.relpartbound, c.oid)), ',' ORDER BY c.oid, t.parent)) AS children,
        md5(string_agg(concat_ws(' ', c.relkind, c.relpersistence), ',' ORDER BY c.oid)) AS storage
    FROM tree t JOIN pg_class c ON c.oid = t.oid GROUP BY t.place)
SELECT w.place, (SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname = {home} AND c.relname = 'slotkeeper_progress'),
       w.oid::bigint, s.files, s.columns, s.triggers, s.rules, s.security, s.constraints, s.indexes, s.children, s.storage,
       ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY a.attnum),
       ARRAY(SELECT a.attnum::int FROM pg_attribute a WHERE a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY a.attnum),
       s.members, s.counted, r.rows, r.older, r.changes, txid_current_snapshot()::text
FROM wanted w JOIN shape s ON s.place = w.place JOIN ({rows}) r ON r.place = w.place ORDER BY w.place

-- name: rows
-- A target's rows: how many, up to a limit; whether one is here that the recorded snapshot saw, or that was written by the
-- transaction that the record was made in, or by one that altered a column (a new type writes every row again); and what its
-- lanes have applied. PostgreSQL, "System Columns" and "Routine Vacuuming": xmin has 32 bits and stays as it is when a row is
-- frozen; below 3 it is a frozen one of old. Its distance from the next transaction gives the 64 bits back.
SELECT {place} AS place,
    (SELECT count(*) FROM (SELECT 1 FROM {target} LIMIT {most}) l)::bigint AS rows,
    EXISTS (SELECT 1 FROM (SELECT t.xmin::text::bigint AS x FROM {target} t) o
        WHERE {snapshot} <> '' AND (o.x < 3 OR txid_visible_in_snapshot({next} - ({next} - o.x) % 4294967296, nullif({snapshot}, '')::txid_snapshot)
            OR {next} - ({next} - o.x) % 4294967296 = {own}
            OR o.x = ANY (ARRAY(SELECT a.xmin::text::bigint FROM pg_attribute a WHERE a.attrelid = {oid} AND a.attnum > 0)))) AS older,
    (SELECT coalesce(sum(p.changes), 0) FROM {schema}.slotkeeper_progress p
     WHERE p.source = {source} AND p.source_table = {source_table} AND p.slot = {slot})::bigint AS changes

-- name: rows_unread
-- For a target whose rows cannot be read now.
SELECT {place} AS place, 0::bigint AS rows, true AS older, 0::bigint AS changes

-- name: rows_dws
-- The same for DWS, whose DNs count transactions separately, and whose column-store tables have no xmin: any row will do.
SELECT {place} AS place,
    (SELECT count(*) FROM (SELECT 1 FROM {target} LIMIT {most}) l)::bigint AS rows,
    EXISTS (SELECT 1 FROM {target}) AS older,
    (SELECT coalesce(sum(p.changes), 0) FROM {schema}.slotkeeper_progress p
     WHERE p.source = {source} AND p.source_table = {source_table} AND p.slot = {slot})::bigint AS changes

-- name: seen_dws
-- The same for DWS: no tree, no identities nor generated columns; row security is an option of the table. Its storage files
-- are those of one coordinator, so none is returned.
SELECT w.place, (SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname = {home} AND c.relname = 'slotkeeper_progress'),
       c.oid::bigint, ''::text,
       md5((SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attnotnull,
                pg_get_expr(d.adbin, d.adrelid)), ',' ORDER BY a.attnum)
            FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)),
       md5((SELECT string_agg(concat_ws(' ', g.tgname, g.tgfoid, g.tgtype, g.tgenabled), ',' ORDER BY g.tgname)
            FROM pg_trigger g WHERE g.tgrelid = c.oid)),
       md5((SELECT string_agg(concat_ws(' ', r.rulename, r.ev_enabled, r.ev_action), ',' ORDER BY r.rulename)
            FROM pg_rewrite r WHERE r.ev_class = c.oid)),
       md5(array_to_string(c.reloptions, ',')),
       md5((SELECT string_agg(concat_ws(' ', k.conname, k.contype, k.condeferrable, pg_get_constraintdef(k.oid)),
                ',' ORDER BY k.conname)
            FROM pg_constraint k WHERE k.conrelid = c.oid)),
       md5((SELECT string_agg(pg_get_indexdef(i.indexrelid) || i.indisvalid || i.indimmediate, ',' ORDER BY i.indexrelid)
            FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique)),
       ''::text,
       md5(concat_ws(' ', c.relkind, c.relpersistence)),
       ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY a.attnum),
       ARRAY(SELECT a.attnum::int FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY a.attnum),
       ARRAY[c.oid::bigint], true, r.rows, r.older, r.changes, ''::text
FROM (SELECT ({places}::int[])[g] AS place, ({schemas}::text[])[g] AS schema, ({names}::text[])[g] AS name
      FROM generate_series(1, array_length({places}::int[], 1)) g) w
JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN ({rows}) r ON r.place = w.place ORDER BY w.place

-- name: applied
-- What the lanes of tables whose targets are beside this store have applied, and what is decided and not settled.
SELECT p.source_table, (SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE n.nspname = %(home)s AND c.relname = 'slotkeeper_progress'),
       sum(p.changes)::bigint, coalesce(sum(p.decided_rows), 0)::bigint
FROM {schema}.slotkeeper_progress p
WHERE p.source = %(source)s AND p.source_table = ANY (%(source_tables)s) AND p.slot = %(slot)s GROUP BY p.source_table

-- name: recorded
-- What the lanes' rows keep of their target, and how far each lane has come.
SELECT target_seen, state FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND target_seen IS NOT NULL

-- name: sure
-- Whether a row is here that the recorded snapshot saw for certain: one from below its xmin, where nothing was open. The
-- answer of txid_visible_in_snapshot is wrong for a subtransaction (PostgreSQL, "System Information Functions").
SELECT EXISTS (SELECT 1 FROM (SELECT t.xmin::text::bigint AS x FROM {table} t) o,
        (SELECT txid_snapshot_xmax(txid_current_snapshot()) AS next, txid_snapshot_xmin(%(snapshot)s::txid_snapshot) AS first) s
    WHERE o.x < 3 OR s.next - (s.next - o.x) %% 4294967296 < s.first OR s.next - (s.next - o.x) %% 4294967296 = %(own)s
        OR o.x = ANY (ARRAY(SELECT a.xmin::text::bigint FROM pg_attribute a WHERE a.attrelid = %(oid)s AND a.attnum > 0)))

-- name: still
-- Those of some tables that are still there.
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(members)s::bigint[]::oid[]) AND c.relkind IN ('r', 'p')

-- name: any_row
-- Whether a table that has left the tree holds a row.
SELECT EXISTS (SELECT 1 FROM {table})

-- name: kept
-- Whether the progress rows keep a record at all.
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'slotkeeper_progress' AND a.attname = 'target_seen' AND NOT a.attisdropped

-- name: record
-- The same for all lanes, in the transaction of what renews it.
UPDATE {schema}.slotkeeper_progress SET target_seen = %(seen)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: mark
-- One that no start passes; of a job that another start has taken over nothing is written.
UPDATE {schema}.slotkeeper_progress SET target_seen = %(seen)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s
