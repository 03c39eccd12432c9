-- Statements on slotkeeper_views and slotkeeper_view_marks, and catalog queries about the objects of views.

-- name: rows
-- Every view of a job, or with job '' of the schema.
SELECT target, job, epoch, definition, spec, state, cause, extract(epoch FROM since)::float8, adds, built, capture,
       rounds, applied, round_ms, extract(epoch FROM fresh_at)::float8, extract(epoch FROM built_at)::float8,
       extract(epoch FROM verified_at)::float8, verified,
       (SELECT nullif(c.reltuples, -1)::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname || '.' || c.relname = target)
FROM {schema}.slotkeeper_views WHERE %(job)s IN ('', job) ORDER BY target

-- name: enter
-- A view of the configuration. A new one is PENDING; a changed definition makes a built one STALE; FAILED is retried.
INSERT INTO {schema}.slotkeeper_views AS v (target, job, definition, spec, state)
VALUES (%(target)s, %(job)s, %(definition)s, %(spec)s, 'PENDING')
ON CONFLICT (target) DO UPDATE SET
    definition = excluded.definition, spec = excluded.spec, since = now(),
    state = CASE WHEN v.state = 'PENDING' THEN 'PENDING'
                 WHEN v.state = 'RUNNING' AND v.definition = excluded.definition THEN 'RUNNING' ELSE 'STALE' END,
    cause = CASE WHEN v.state = 'RUNNING' AND v.definition = excluded.definition THEN ''
                 WHEN v.definition <> excluded.definition THEN 'its definition changed'
                 WHEN v.state = 'BUILDING' THEN 'its last build did not end' ELSE v.cause END
WHERE v.job = excluded.job

-- name: take
-- The next epoch of a job's views, which ends the rounds of earlier drivers.
UPDATE {schema}.slotkeeper_views SET epoch = 1 + (SELECT max(epoch) FROM {schema}.slotkeeper_views WHERE job = %(job)s)
WHERE job = %(job)s RETURNING epoch

-- name: set_state
-- Change a view's state, with its cause.
UPDATE {schema}.slotkeeper_views SET state = %(state)s, cause = %(cause)s, since = now()
WHERE target = %(target)s AND (%(epoch)s = 0 OR epoch = %(epoch)s) AND (state <> %(state)s OR cause <> %(cause)s)

-- name: fence
-- The views that a round may write: it locks their rows, so that two rounds cannot overlap.
UPDATE {schema}.slotkeeper_views SET rounds = rounds + 1
WHERE job = %(job)s AND epoch = %(epoch)s AND state = 'RUNNING' RETURNING target, adds, capture

-- name: building
-- The fence of a build.
UPDATE {schema}.slotkeeper_views SET rounds = rounds + 1
WHERE target = %(target)s AND epoch = %(epoch)s AND state = 'BUILDING' RETURNING adds

-- name: stored_epoch
-- The newest epoch of a job's views.
SELECT max(epoch) FROM {schema}.slotkeeper_views WHERE job = %(job)s

-- name: made
-- Record that a view's objects exist, with the definition that they have.
UPDATE {schema}.slotkeeper_views SET adds = %(adds)s, built = %(built)s WHERE target = %(target)s

-- name: running
-- A build ended: the view equals its SELECT in the build's snapshot.
UPDATE {schema}.slotkeeper_views SET state = 'RUNNING', cause = '', since = now(), capture = %(capture)s,
    built_at = now(), fresh_at = now(), verified = '' WHERE target = %(target)s

-- name: applied
-- A round applied a view's changes, in milliseconds.
UPDATE {schema}.slotkeeper_views SET applied = applied + %(applied)s, round_ms = %(ms)s, fresh_at = now()
WHERE target = %(target)s

-- name: verified
-- The result of the last comparison.
UPDATE {schema}.slotkeeper_views SET verified_at = now(), verified = %(verified)s WHERE target = %(target)s

-- name: marks
-- The first event of each view after which it must be rebuilt.
SELECT DISTINCT ON (view) view, cause FROM {schema}.slotkeeper_view_marks
WHERE view = ANY (%(targets)s) ORDER BY view, at

-- name: unmark
-- A build covers the causes of these events.
DELETE FROM {schema}.slotkeeper_view_marks WHERE view = %(target)s

-- name: forget
-- Remove a view.
DELETE FROM {schema}.slotkeeper_views WHERE target = %(target)s

-- name: ready
-- The targets whose lanes are all running: their copy has ended and they have caught up. A target's name in
-- slotkeeper_progress starts with the database.
SELECT w.name FROM unnest(%(tables)s::text[]) w(name)
JOIN {schema}.slotkeeper_progress p ON p.target IN (w.name, current_database() || '.' || w.name)
GROUP BY w.name HAVING bool_and(p.state = 'running')

-- name: guarded
-- Whether a table has the guard of a view: only the transaction that creates a view's table creates it.
SELECT EXISTS (
    SELECT 1 FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE g.tgrelid = to_regclass(%(table)s) AND g.tgname = %(trigger)s AND n.nspname = %(home)s
      AND p.proname ~ '^slotkeeper_guard_[0-9a-f]+$')

-- name: in_tree
-- Those of the tables whose changes a statement trigger does not see in full.
SELECT w.name FROM unnest(%(tables)s::text[], %(quoted)s::text[]) w(name, quoted) JOIN pg_class c ON c.oid = to_regclass(w.quoted)
WHERE c.relkind <> 'r' OR EXISTS (SELECT 1 FROM pg_inherits i WHERE c.oid IN (i.inhparent, i.inhrelid)) ORDER BY 1

-- name: own_equality
-- The columns of a key whose type, or that of its domain, has its own equality operator: with the search_path of
-- rounds, another operator would be found.
WITH RECURSIVE types AS (
    SELECT a.attname::text AS name, a.atttypid AS type FROM pg_attribute a
    WHERE a.attrelid = to_regclass(%(table)s) AND a.attname = ANY (%(key)s::name[])
    UNION SELECT t.name, b.typbasetype FROM types t JOIN pg_type b ON b.oid = t.type WHERE b.typbasetype <> 0)
SELECT DISTINCT t.name FROM types t JOIN pg_operator o ON o.oprname = '=' AND o.oprleft = t.type AND o.oprright = t.type
WHERE o.oprnamespace <> 'pg_catalog'::regnamespace ORDER BY 1

-- name: unfit
-- The columns of a table that a view cannot use, why, and the cure. Triggers see no virtual generated columns
-- (PostgreSQL, "Generated Columns"); captures remove repeated rows, which needs the equality operator of a type.
WITH RECURSIVE types AS (
    SELECT w.name, a.attnum, a.attgenerated::text AS generated, coalesce(nullif(t.typelem, 0), t.oid) AS type
    FROM unnest(%(used)s::text[]) w(name) LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(%(table)s)
        AND a.attname = w.name::name AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    UNION SELECT t.name, t.attnum, t.generated, b.typbasetype FROM types t JOIN pg_type b ON b.oid = t.type
    WHERE b.typbasetype <> 0)
SELECT name, why, cure FROM (
    SELECT name, 'does not exist' AS why, 'name a column of the table' AS cure FROM types WHERE attnum IS NULL
    UNION ALL SELECT name, 'is a virtual generated column', 'use its expression, or make it STORED' FROM types WHERE generated = 'v'
    UNION ALL SELECT name, 'has the type ' || type::regtype || ', which has no equality operator', 'use jsonb or text in the source'
    FROM types WHERE name = ANY (%(captured)s) AND type = ANY ('{{json,xml,point,lseg,path,box,polygon,line,circle}}'::regtype[])
    UNION ALL SELECT t.name, 'has a type with its own operators', 'cast the column in the SELECT, for example to text'
    FROM types t JOIN pg_operator o ON o.oprname = '=' AND o.oprleft = t.type AND o.oprright = t.type
    WHERE t.name = ANY (%(compared)s) AND o.oprnamespace <> 'pg_catalog'::regnamespace) u ORDER BY 1, 2

-- name: building_now
-- The fence of what a build creates.
SELECT 1 FROM {schema}.slotkeeper_views WHERE target = %(target)s AND epoch = %(epoch)s AND state = 'BUILDING' FOR UPDATE

-- name: discarding
-- The fence of a deletion of deltas that no round applies.
SELECT 1 FROM {schema}.slotkeeper_views
WHERE target = %(target)s AND epoch = %(epoch)s AND state IN ('STALE', 'FAILED') FOR UPDATE

-- name: strays
-- The triggers outside the given tables that call one of these functions: those of a renamed table, or of another login.
SELECT g.tgname::text, n.nspname || '.' || c.relname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_proc p ON p.oid = g.tgfoid
WHERE p.pronamespace = (SELECT h.oid FROM pg_namespace h WHERE h.nspname = %(home)s) AND p.proname = ANY (%(functions)s)
  AND g.tgparentid = 0 AND NOT EXISTS (
    SELECT 1 FROM unnest(%(tables)s::text[], %(triggers)s::text[]) w(tab, name)
    WHERE w.tab = n.nspname || '.' || c.relname AND w.name = g.tgname)

-- name: unused
-- The functions of captures and guards that no trigger calls any more.
SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = %(schema)s AND p.proname ~ '^slotkeeper_(capture|guard)_[0-9a-f]{{20}}$'
  AND NOT EXISTS (SELECT 1 FROM pg_trigger g WHERE g.tgfoid = p.oid)

-- name: lacked
-- The numbers of those columns that are not the first column of an index.
SELECT w.place FROM unnest(%(tables)s::text[], %(columns)s::text[]) WITH ORDINALITY w(tab, name, place)
WHERE to_regclass(w.tab) IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = to_regclass(w.tab) AND i.indisvalid AND a.attname = w.name)

-- name: capture
-- The triggers and columns of views as they are, and whether another trigger calls one of their functions: a hash that
-- changes with each of them. ALTER TABLE ... DISABLE TRIGGER and ENABLE TRIGGER update the row in pg_trigger, ALTER
-- COLUMN that in pg_attribute, and with it xmin (PostgreSQL, "System Columns").
SELECT w.view, count(*), bool_and(g.tgenabled IN ('O', 'A') AND p.proname = w.function
           AND p.pronamespace = (SELECT h.oid FROM pg_namespace h WHERE h.nspname = %(home)s)
           AND right(p.proname, 20) = left(encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'), 20)),
       md5(string_agg(concat_ws(' ', c.oid, g.oid, g.xmin, p.oid, p.xmin,
           (SELECT string_agg(concat_ws(' ', a.attnum, a.xmin), ',' ORDER BY a.attnum) FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attname = ANY (string_to_array(w.columns, chr(31))::name[]))), ',' ORDER BY c.oid, g.oid)),
       coalesce(min(w.schema || '.' || w.name) FILTER (WHERE g.tgenabled NOT IN ('O', 'A')), ''),
       bool_or((SELECT count(*) FROM pg_trigger x WHERE x.tgfoid = p.oid)
               > (SELECT count(*) FROM unnest(%(functions)s::text[]) f(name) WHERE f.name = p.proname)),
       coalesce(min(w.schema || '.' || w.name) FILTER (WHERE c.relkind <> 'r' OR EXISTS (
           SELECT 1 FROM pg_inherits i WHERE c.oid IN (i.inhparent, i.inhrelid))), ''),
       -- what can change the rows of the view's own table: pg_trigger.h has 2 for BEFORE
       coalesce(min((SELECT min(x.what) FROM (
           SELECT 'trigger ' || t.tgname FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgtype & 2 = 2
           UNION ALL SELECT 'rule ' || r.rulename FROM pg_rewrite r WHERE r.ev_class = c.oid
           UNION ALL SELECT 'foreign key ' || k.conname FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f') x(what)))
           FILTER (WHERE w.schema || '.' || w.name = w.view), '')
FROM unnest(%(views)s::text[], %(schemas)s::text[], %(names)s::text[], %(triggers)s::text[], %(functions)s::text[],
            %(columns)s::text[]) w(view, schema, name, trigger, function, columns)
JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_trigger g ON g.tgrelid = c.oid AND g.tgname = w.trigger JOIN pg_proc p ON p.oid = g.tgfoid
GROUP BY w.view

-- name: columns
-- The columns of a table or a temporary table with their types, in order.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.atttypid::regtype::text, a.atttypmod
FROM pg_attribute a WHERE a.attrelid = to_regclass(%(table)s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: is_there
-- Whether a table exists.
SELECT to_regclass(%(table)s) IS NOT NULL
