-- Queries of a target check: catalogs for all targets at once, and a bounded read of each target's rows. Takes only the
-- lock of a SELECT. {schemas} and {names} are the targets, {places} their numbers; {rows} has one SELECT per target.
-- Values are literals, because a name can contain a percent sign.

-- name: seen
-- One row per existing target. The names in the output of pg_get_expr and similar functions depend on the search_path,
-- which is pinned. PostgreSQL, "System Catalogs": VACUUM FULL, CLUSTER and TRUNCATE change pg_class.relfilenode; none
-- of them changes the oid. The triggers of foreign keys are internal triggers of both tables, so a foreign key that
-- references the target is visible as well. The triggers that capture changes for views are left out, as in `triggers`
-- of eligibility.sql: views come and go while the job runs.
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
            FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT EXISTS (SELECT 1 FROM pg_proc p WHERE p.oid = g.tgfoid
                AND g.tgtype & 67 = 0 AND g.tgname ~ '^slotkeeper_view_[0-9a-f]+_[iudt]$'
                AND p.pronamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = {home}) AND p.proname = 'slotkeeper_capture_'
                    || left(encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'), 20))), ';' ORDER BY c.oid)) AS triggers,
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
-- The rows of a target: their number, up to a limit; whether a row exists that the recorded snapshot saw, that the
-- transaction of the record wrote, or that a transaction which altered a column wrote (a new type rewrites every row);
-- and the rows that its lanes have written, changes and repeats. PostgreSQL, "System Columns" and "Routine Vacuuming": xmin has 32 bits
-- and is unchanged when a row is frozen; a value below 3 is a row frozen by an old version. The distance from the next
-- transaction yields the 64 bits.
SELECT {place} AS place,
    (SELECT count(*) FROM (SELECT 1 FROM {target} t LIMIT {most}) l)::bigint AS rows,
    EXISTS (SELECT 1 FROM (SELECT t.xmin::text::bigint AS x FROM {target} t) o
        WHERE {snapshot} <> '' AND (o.x < 3 OR txid_visible_in_snapshot({next} - ({next} - o.x) % 4294967296, nullif({snapshot}, '')::txid_snapshot)
            OR {next} - ({next} - o.x) % 4294967296 = {own}
            OR o.x = ANY (ARRAY(SELECT a.xmin::text::bigint FROM pg_attribute a WHERE a.attrelid = {oid} AND a.attnum > 0)))) AS older,
    (SELECT coalesce(sum(p.changes + p.repeats), 0) FROM {schema}.slotkeeper_progress p
     WHERE p.source = {source} AND p.source_table = {source_table} AND p.slot = {slot})::bigint AS changes

-- name: rows_unread
-- For a target whose rows cannot be read now.
SELECT {place} AS place, 0::bigint AS rows, true AS older, 0::bigint AS changes

-- name: rows_dws
-- The same for DWS, whose DNs count transactions separately, and whose column-store tables have no xmin: any row is
-- sufficient.
SELECT {place} AS place,
    (SELECT count(*) FROM (SELECT 1 FROM {target} LIMIT {most}) l)::bigint AS rows,
    EXISTS (SELECT 1 FROM {target}) AS older,
    (SELECT coalesce(sum(p.changes + p.repeats), 0) FROM {schema}.slotkeeper_progress p
     WHERE p.source = {source} AND p.source_table = {source_table} AND p.slot = {slot})::bigint AS changes

-- name: seen_dws
-- The same for DWS: it has no inheritance trees, identities or generated columns, and row security is a table option.
-- Storage files are those of one coordinator, so none is returned.
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
-- The changes applied by the lanes of tables whose targets are in a separate sink, and the range that is decided but
-- not settled.
SELECT p.source_table, (SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE n.nspname = %(home)s AND c.relname = 'slotkeeper_progress'),
       sum(p.changes)::bigint, coalesce(sum(p.decided_rows), 0)::bigint
FROM {schema}.slotkeeper_progress p
WHERE p.source = %(source)s AND p.source_table = ANY (%(source_tables)s) AND p.slot = %(slot)s GROUP BY p.source_table

-- name: recorded
-- The target records in the lanes' rows, and the progress of each lane.
SELECT target_seen, state FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND target_seen IS NOT NULL

-- name: sure
-- Whether a row exists that the recorded snapshot certainly saw: a row from below the snapshot's xmin, where no
-- transaction was open. The result of txid_visible_in_snapshot is wrong for a subtransaction (PostgreSQL, "System
-- Information Functions").
SELECT EXISTS (SELECT 1 FROM (SELECT t.xmin::text::bigint AS x FROM {table} t) o,
        (SELECT txid_snapshot_xmax(txid_current_snapshot()) AS next, txid_snapshot_xmin(%(snapshot)s::txid_snapshot) AS first) s
    WHERE o.x < 3 OR s.next - (s.next - o.x) %% 4294967296 < s.first OR s.next - (s.next - o.x) %% 4294967296 = %(own)s
        OR o.x = ANY (ARRAY(SELECT a.xmin::text::bigint FROM pg_attribute a WHERE a.attrelid = %(oid)s AND a.attnum > 0)))

-- name: still
-- Those of some tables that still exist.
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(members)s::bigint[]::oid[]) AND c.relkind IN ('r', 'p')

-- name: any_row
-- Whether a table that has left the tree contains a row.
SELECT EXISTS (SELECT 1 FROM {table})

-- name: kept
-- Whether the progress rows have a column for the record.
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'slotkeeper_progress' AND a.attname = 'target_seen' AND NOT a.attisdropped

-- name: record
-- Writes the record into the rows of all lanes, in the transaction that renews the record.
UPDATE {schema}.slotkeeper_progress SET target_seen = %(seen)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: mark
-- Writes a record with which no start accepts the target; writes nothing if another run has taken over the job.
UPDATE {schema}.slotkeeper_progress SET target_seen = %(seen)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s
