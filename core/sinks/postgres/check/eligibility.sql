-- Facts that determine whether a table can be a target, read only from catalogs. `oid` is the table's, `oids` are those
-- of the table and all its partitions. DWS has the catalogs of PostgreSQL 9.2. If they lack something, a statement has
-- a second variant for DWS with the same columns.

-- name: oid
-- The table's oid; no row if the table does not exist.
SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: kind
-- The kind of a table (the letter in pg_class); no row if the table does not exist.
SELECT c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: tree
-- All tables below a table, nearest first: the oid, whether it is a partition, its name, and the name of its parent.
-- PostgreSQL, pg_inherits: inhdetachpending (since 14; through JSON, an older catalog returns NULL) marks a partition
-- that DETACH CONCURRENTLY has already detached, so that rows are neither routed to it nor read from it.
WITH RECURSIVE tree AS (
    SELECT i.inhrelid AS oid, i.inhparent AS parent, 1 AS depth FROM pg_inherits i
    WHERE i.inhparent = %(oid)s::oid AND (to_jsonb(i) ->> 'inhdetachpending') IS DISTINCT FROM 'true'
    UNION ALL
    SELECT i.inhrelid, i.inhparent, t.depth + 1 FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid
    WHERE (to_jsonb(i) ->> 'inhdetachpending') IS DISTINCT FROM 'true')
SELECT c.oid::bigint, c.relispartition, n.nspname || '.' || c.relname, m.nspname || '.' || p.relname
FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class p ON p.oid = t.parent JOIN pg_namespace m ON m.oid = p.relnamespace ORDER BY t.depth, 3

-- name: tree_dws
-- The same for DWS, whose partitions are not tables (DWS, PG_PARTITION): the rows here are tables that inherit.
SELECT c.oid::bigint, false, n.nspname || '.' || c.relname, ''
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE i.inhparent = %(oid)s::oid ORDER BY 3

-- name: relations
-- The table, its kind and persistence (the letters in pg_class), and whether row security applies to this login.
SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text, row_security_active(c.oid)
FROM pg_class c WHERE c.oid = ANY (%(oids)s::oid[])

-- name: relations_dws
-- The same; DWS has no function that reports row-level security.
SELECT c.oid::bigint, c.relkind::text, c.relpersistence::text, false FROM pg_class c WHERE c.oid = ANY (%(oids)s::oid[])

-- name: stricter
-- Columns in which a partition is stricter than its table: partition, column, whether it is NOT NULL, whether the
-- server computes it. PostgreSQL, ALTER TABLE ATTACH PARTITION: columns and types are the same, but a partition can
-- have its own NOT NULL; up to PostgreSQL 15 it can compute a column that its table does not compute
-- (MergeAttributesIntoExisting in commands/tablecmds.c).
SELECT a.attrelid::bigint, a.attname::text, a.attnotnull, a.attgenerated <> ''
FROM pg_attribute a JOIN pg_attribute t ON t.attrelid = %(oid)s::oid AND t.attname = a.attname
WHERE a.attrelid = ANY (%(oids)s::oid[]) AND a.attnum > 0
  AND (a.attnotnull AND NOT t.attnotnull OR a.attgenerated <> '' AND t.attgenerated = '') ORDER BY a.attnum

-- name: columns
-- Columns in order: name, type, NOT NULL, whether it has a default or an identity, whether it is always generated,
-- whether the server computes it; the base type of a domain through all levels, and whether one of these domains is NOT
-- NULL. A type outside pg_catalog has its schema, as in the source.
SELECT a.attname::text,
       CASE WHEN n.nspname = 'pg_catalog' OR position(quote_ident(n.nspname) || '.' IN format_type(a.atttypid, a.atttypmod)) = 1
            THEN '' ELSE quote_ident(n.nspname) || '.' END || format_type(a.atttypid, a.atttypmod),
       a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '' OR a.attidentity = 'a', a.attgenerated <> '',
       coalesce(b.base, ''), coalesce(b.strict, false)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN LATERAL (
    WITH RECURSIVE level AS (
        SELECT t.typbasetype AS base, t.typtypmod AS length, t.typnotnull AS strict
        UNION ALL
        SELECT d.typbasetype, d.typtypmod, l.strict OR d.typnotnull
        FROM level l JOIN pg_type d ON d.oid = l.base AND d.typtype = 'd')
    SELECT CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, l.length)) = 1
                THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, l.length) AS base, l.strict
    FROM level l JOIN pg_type y ON y.oid = l.base AND y.typtype <> 'd' JOIN pg_namespace m ON m.oid = y.typnamespace
) b ON t.typtype = 'd'
WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: columns_dws
-- The same; DWS has neither identities nor generated columns. For a domain over a domain, the inner domain is returned,
-- so that the objection contains the fix.
SELECT a.attname::text,
       CASE WHEN n.nspname = 'pg_catalog' OR position(quote_ident(n.nspname) || '.' IN format_type(a.atttypid, a.atttypmod)) = 1
            THEN '' ELSE quote_ident(n.nspname) || '.' END || format_type(a.atttypid, a.atttypmod),
       a.attnotnull, a.atthasdef, false, false,
       CASE WHEN t.typtype = 'd' THEN
           CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, t.typtypmod)) = 1
                THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, t.typtypmod) ELSE '' END,
       t.typnotnull
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_type y ON y.oid = t.typbasetype LEFT JOIN pg_namespace m ON m.oid = y.typnamespace
WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: keys
-- Unique and exclusion indexes: table, name, the constraint's name if any, whether it is immediate, whether it covers
-- all rows and plain columns, its columns, and whether it is complete; expressions have no name. For a partition, only
-- indexes that its table lacks: an index of the table has each partition's index as a child (PostgreSQL, pg_inherits).
-- A column is not plain if the index compares it differently: with a collation other than the column's in which
-- different strings are equal, or with an = operator other than that of the type's default class. PostgreSQL, INSERT:
-- if no collation or operator class is named, ON CONFLICT accepts an index with any of them.
SELECT i.indrelid::bigint, x.relname::text, k.conname::text, i.indimmediate, i.indpred IS NULL AND i.indexprs IS NULL AND i.indisunique
       AND NOT EXISTS (
           SELECT 1 FROM generate_series(0, i.indnkeyatts - 1) p
           JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[p]
           JOIN pg_opclass c ON c.oid = i.indclass[p] LEFT JOIN pg_collation l ON l.oid = i.indcollation[p]
           WHERE (l.oid <> a.attcollation AND NOT l.collisdeterministic) OR NOT (c.opcdefault OR EXISTS (
               SELECT 1 FROM pg_opclass d JOIN pg_amop o ON o.amopfamily = d.opcfamily JOIN pg_amop s ON s.amopopr = o.amopopr
               WHERE d.opcdefault AND d.opcmethod = c.opcmethod AND d.opcintype = c.opcintype
                 AND s.amopfamily = c.opcfamily AND 3 = ALL (ARRAY[o.amopstrategy, s.amopstrategy])
                 AND c.opcintype = ALL (ARRAY[o.amoplefttype, o.amoprighttype, s.amoplefttype, s.amoprighttype])))),
       ARRAY(SELECT a.attname FROM unnest(i.indkey) WITH ORDINALITY n(number, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = n.number
             WHERE n.place <= i.indnkeyatts ORDER BY n.place)::text[],
       i.indisvalid
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid
WHERE i.indrelid = ANY (%(oids)s::oid[]) AND (i.indisunique OR i.indisexclusion)
  AND (i.indrelid = %(oid)s::oid OR NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)) ORDER BY 2

-- name: keys_dws
-- The same, without WITH ORDINALITY. DWS, PG_INDEX: no indnkeyatts, so that the name is that of `absent`; if a kernel
-- has it, the columns after it are only included. DWS, PG_INDEX, PG_OPCLASS, PG_AMOP: the columns that are used here.
SELECT i.indrelid::bigint, x.relname::text, k.conname::text, i.indimmediate, i.indpred IS NULL AND i.indexprs IS NULL AND i.indisunique
       AND NOT EXISTS (
           SELECT 1 FROM generate_series(0, i.indnatts - 1) p
           JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[p]
           JOIN pg_opclass c ON c.oid = i.indclass[p] LEFT JOIN pg_collation l ON l.oid = i.indcollation[p]
           WHERE (l.oid <> a.attcollation AND l.collname = 'case_insensitive') OR NOT (c.opcdefault OR EXISTS (
               SELECT 1 FROM pg_opclass d JOIN pg_amop o ON o.amopfamily = d.opcfamily JOIN pg_amop s ON s.amopopr = o.amopopr
               WHERE d.opcdefault AND d.opcmethod = c.opcmethod AND d.opcintype = c.opcintype
                 AND s.amopfamily = c.opcfamily AND 3 = ALL (ARRAY[o.amopstrategy, s.amopstrategy])
                 AND c.opcintype = ALL (ARRAY[o.amoplefttype, o.amoprighttype, s.amoplefttype, s.amoprighttype])))),
       ARRAY(SELECT a.attname FROM generate_series(0, 31) n
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]
             WHERE n < i.indnatts AND n < (SELECT indnkeyatts FROM pg_index c WHERE c.indexrelid = i.indexrelid)
             ORDER BY n)::text[],
       true
FROM (SELECT indexrelid, indrelid, indkey, indclass, indcollation, indnatts, indimmediate, indpred, indexprs, indisunique,
             indisexclusion FROM pg_index) i
CROSS JOIN (SELECT 32 AS indnkeyatts) absent
JOIN pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid
WHERE i.indrelid = %(oid)s::oid AND (i.indisunique OR i.indisexclusion) ORDER BY 2

-- name: operators
-- The operators of unique indexes that consist only of columns: column, strategy (1 to 5), schema, name, and all
-- columns of the index. Vectors count from 0; a column that an index only includes has no class.
SELECT a.attname::text, s.amopstrategy, n.nspname::text, o.oprname::text,
       ARRAY(SELECT b.attname::text FROM generate_series(0, 31) p
             JOIN pg_attribute b ON b.attrelid = i.indrelid AND b.attnum = i.indkey[p] AND i.indclass[p] IS NOT NULL)
FROM pg_index i CROSS JOIN generate_series(0, 31) place
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[place]
JOIN pg_opclass c ON c.oid = i.indclass[place]
JOIN pg_amop s ON s.amopfamily = c.opcfamily AND s.amoplefttype = c.opcintype AND s.amoprighttype = c.opcintype
JOIN pg_operator o ON o.oid = s.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
WHERE i.indrelid = %(oid)s::oid AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND s.amopstrategy BETWEEN 1 AND 5
ORDER BY i.indexrelid, place, s.amopstrategy

-- name: implicit_casts
-- Columns with an implicit cast that calls a function and whose result type can determine the operator for the column,
-- with that function; except those of the server's installer and in pg_catalog. DWS, PG_CAST: castcontext i.
SELECT a.attname::text, p.oid::regprocedure::text
FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
JOIN pg_cast k ON k.castsource IN (y.oid, y.typbasetype) AND k.castcontext = 'i'
JOIN pg_proc p ON p.oid = k.castfunc JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND n.nspname <> 'pg_catalog' AND p.proowner <> 10
ORDER BY a.attnum, 2

-- name: functions
-- Functions that a job's rows run: the table; the constraint, index, column, default or partition key that uses the
-- function, by name; and the function, if its body resolves names as its caller does. A default is that of the table
-- that a statement names, so defaults of partitions do not apply; a partition itself checks the keys of all tables
-- above it (PostgreSQL, "Table Partitioning"). C and internal functions resolve no names; neither does a SQL body that
-- was parsed at creation (prosqlbody, since PostgreSQL 14: before, the name is that of `absent`); SET search_path fixes
-- the resolution.
WITH RECURSIVE kinds AS (
    SELECT a.atttypid AS oid FROM pg_attribute a WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END
    FROM kinds k JOIN pg_type t ON t.oid = k.oid WHERE t.typtype = 'd' OR t.typcategory = 'A'),
above AS (
    SELECT unnest(%(oids)s::oid[]) AS oid
    UNION
    SELECT i.inhparent FROM above a JOIN pg_inherits i ON i.inhrelid = a.oid),
owners AS (
    SELECT 'pg_catalog.pg_constraint'::regclass AS class, c.oid, c.conname::text AS name,
           CASE c.contypid WHEN 0 THEN c.conrelid ELSE %(oid)s::oid END AS at FROM pg_constraint c
    WHERE c.contype = 'c' AND (c.conrelid = ANY (%(oids)s::oid[]) OR c.contypid IN (SELECT oid FROM kinds))
    UNION ALL
    SELECT 'pg_catalog.pg_attrdef'::regclass, d.oid, CASE a.attgenerated WHEN '' THEN 'default of ' ELSE '' END || a.attname,
           d.adrelid
    FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE d.adrelid = ANY (%(oids)s::oid[]) AND (d.adrelid = %(oid)s::oid OR a.attgenerated <> '')
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, x.oid, x.relname::text, i.indrelid
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = ANY (%(oids)s::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, p.partrelid, 'partition key',
           CASE WHEN p.partrelid = ANY (%(oids)s::oid[]) THEN p.partrelid ELSE %(oid)s::oid END
    FROM above a JOIN pg_partitioned_table p ON p.partrelid = a.oid),
used AS (
    SELECT o.class::oid AS class, o.oid, o.name, o.at, NULL::oid AS function FROM owners o
    UNION
    SELECT 'pg_catalog.pg_proc'::regclass::oid, f.oid, u.name, u.at, f.oid
    FROM used u CROSS JOIN (SELECT NULL::text AS prosqlbody) absent
    JOIN pg_depend d ON d.classid = u.class AND d.objid = u.oid
    LEFT JOIN pg_operator p ON d.refclassid = 'pg_catalog.pg_operator'::regclass AND p.oid = d.refobjid
    JOIN pg_proc f ON f.oid = CASE WHEN d.refclassid = 'pg_catalog.pg_proc'::regclass THEN d.refobjid ELSE p.oprcode END
    WHERE u.function IS NULL OR (SELECT prosqlbody IS NOT NULL FROM pg_proc q WHERE q.oid = u.function))
SELECT DISTINCT u.at::bigint, u.name, u.function::regprocedure::text, quote_ident(n.nspname)
FROM used u CROSS JOIN (SELECT NULL::text AS prosqlbody) absent
JOIN pg_proc f ON f.oid = u.function JOIN pg_language l ON l.oid = f.prolang
JOIN pg_namespace n ON n.oid = f.pronamespace
WHERE l.lanname NOT IN ('c', 'internal') AND n.nspname <> 'pg_catalog'
  AND (SELECT prosqlbody IS NULL FROM pg_proc q WHERE q.oid = u.function)
  AND NOT EXISTS (SELECT 1 FROM unnest(f.proconfig) setting WHERE setting LIKE 'search\_path=%%')
ORDER BY 2, 3

-- name: functions_dws
-- The same for DWS, whose functions have no pre-parsed bodies.
SELECT DISTINCT %(oid)s::bigint, o.name, f.oid::regprocedure::text, quote_ident(n.nspname)
FROM (
    SELECT 'pg_catalog.pg_constraint'::regclass AS class, c.oid, c.conname::text AS name FROM pg_constraint c
    WHERE c.contype = 'c' AND (c.conrelid = %(oid)s::oid OR c.contypid IN (
        SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND NOT a.attisdropped))
    UNION ALL
    SELECT 'pg_catalog.pg_attrdef'::regclass, d.oid, 'default of ' || a.attname FROM pg_attrdef d
    JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE d.adrelid = %(oid)s::oid
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, x.oid, x.relname::text FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = %(oid)s::oid) o
JOIN pg_depend d ON d.classid = o.class AND d.objid = o.oid
LEFT JOIN pg_operator p ON d.refclassid = 'pg_catalog.pg_operator'::regclass AND p.oid = d.refobjid
JOIN pg_proc f ON f.oid = CASE WHEN d.refclassid = 'pg_catalog.pg_proc'::regclass THEN d.refobjid ELSE p.oprcode END
JOIN pg_language l ON l.oid = f.prolang JOIN pg_namespace n ON n.oid = f.pronamespace
WHERE l.lanname NOT IN ('c', 'internal') AND n.nspname <> 'pg_catalog'
  AND NOT EXISTS (SELECT 1 FROM unnest(f.proconfig) setting WHERE setting LIKE 'search\_path=%%')
ORDER BY 2, 3

-- name: folding
-- Columns with a collation in which different strings are equal.
SELECT a.attname::text FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = %(oid)s::oid AND NOT a.attisdropped AND NOT l.collisdeterministic

-- name: folding_dws
-- The same; DWS has one such collation (CREATE TABLE, COLLATE).
SELECT a.attname::text FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = %(oid)s::oid AND NOT a.attisdropped AND l.collname = 'case_insensitive'

-- name: foreign_keys
-- Foreign keys of the table and its partitions, and of other tables that reference them: the table, the name, the table
-- that has the key, and whether that is the table or a partition. A key that partitions have through their table is
-- returned only for the table (PostgreSQL, pg_constraint, conparentid).
SELECT (CASE WHEN c.conrelid = ANY (%(oids)s::oid[]) THEN c.conrelid ELSE c.confrelid END)::bigint,
       c.conname::text, c.conrelid::regclass::text, c.conrelid = ANY (%(oids)s::oid[])
FROM pg_constraint c
WHERE c.contype = 'f' AND (c.conrelid = ANY (%(oids)s::oid[]) OR c.confrelid = ANY (%(oids)s::oid[]))
  AND NOT EXISTS (SELECT 1 FROM pg_constraint p WHERE p.oid = c.conparentid
                  AND (p.conrelid = ANY (%(oids)s::oid[]) OR p.confrelid = ANY (%(oids)s::oid[])))
ORDER BY 4 DESC, 2

-- name: foreign_keys_dws
-- The same; foreign keys in DWS have no parent.
SELECT %(oid)s::bigint, c.conname::text, c.conrelid::regclass::text, c.conrelid = %(oid)s::oid
FROM pg_constraint c
WHERE c.contype = 'f' AND %(oid)s::oid IN (c.conrelid, c.confrelid) ORDER BY 4 DESC, 2

-- name: triggers
-- Table and name of user triggers that fire in ordinary sessions. A partition has copies of its table's row triggers,
-- which depend on them (up to PostgreSQL 14 as internal triggers: CreateTriggerFiringOn in commands/trigger.c): a copy
-- counts if the original is not returned here, or if only the original is disabled. Copies of triggers of a foreign key
-- have a constraint of another kind. The triggers that capture changes for views do not count: they fire after a
-- statement (PostgreSQL, pg_trigger.h: bits 0, 1 and 6 of tgtype are ROW, BEFORE and INSTEAD), and they and
-- their function have names of views; the function's contains the hash of its body (`slotkeeper.core.views.capture`).
WITH fires AS (
    SELECT t.oid, t.tgrelid, t.tgname, t.tgisinternal, t.tgconstraint FROM pg_trigger t
    WHERE t.tgrelid = ANY (%(oids)s::oid[]) AND t.tgenabled NOT IN ('D', 'R')
      AND NOT EXISTS (
          SELECT 1 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
          WHERE p.oid = t.tgfoid AND t.tgtype & 67 = 0 AND n.nspname = %(schema)s
            AND t.tgname ~ '^slotkeeper_view_[0-9a-f]+_[iudt]$'
            AND p.proname = 'slotkeeper_capture_' || left(encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'), 20)))
SELECT f.tgrelid::bigint, f.tgname::text FROM fires f
LEFT JOIN pg_depend d ON d.classid = 'pg_catalog.pg_trigger'::regclass AND d.objid = f.oid
  AND d.refclassid = 'pg_catalog.pg_trigger'::regclass
WHERE CASE WHEN d.objid IS NULL THEN NOT f.tgisinternal
           ELSE d.refobjid NOT IN (SELECT oid FROM fires) AND NOT EXISTS (
               SELECT 1 FROM pg_constraint k WHERE k.oid = f.tgconstraint AND k.contype <> 't') END
ORDER BY 2

-- name: triggers_dws
-- The same, without copies.
SELECT t.tgrelid::bigint, t.tgname::text FROM pg_trigger t
WHERE t.tgrelid = %(oid)s::oid AND NOT t.tgisinternal AND t.tgenabled NOT IN ('D', 'R') ORDER BY 2

-- name: rules
-- Table and name of rewrite rules, which would change Slotkeeper's statements into others.
SELECT r.ev_class::bigint, r.rulename::text FROM pg_rewrite r
WHERE r.ev_class = ANY (%(oids)s::oid[]) AND r.ev_enabled NOT IN ('D', 'R') AND r.rulename <> '_RETURN' ORDER BY 2

-- name: lies_in_a_tree
-- Whether a table is above or below another table, and whether this login can read which jobs write to those tables.
SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'slotkeeper_progress' AND has_table_privilege(c.oid, 'SELECT')
  AND EXISTS (SELECT 1 FROM pg_inherits i WHERE %(oid)s::oid IN (i.inhrelid, i.inhparent))

-- name: sharers
-- Jobs whose targets are above or below a table, so that they write to its rows: target and job.
WITH RECURSIVE above AS (
    SELECT %(oid)s::oid AS oid UNION SELECT i.inhparent FROM above a JOIN pg_inherits i ON i.inhrelid = a.oid),
below AS (
    SELECT %(oid)s::oid AS oid UNION SELECT i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.oid)
SELECT DISTINCT n.nspname || '.' || c.relname, p.job
FROM (SELECT oid FROM above UNION SELECT oid FROM below) t
JOIN pg_class c ON c.oid = t.oid AND c.oid <> %(oid)s::oid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN {schema}.slotkeeper_progress p
  ON split_part(p.target, ' [', 1) = current_database() || '.' || n.nspname || '.' || c.relname ORDER BY 1, 2

-- name: type
-- A type by its name: kind, base type of a domain (through all levels) or subtype of a range, labels of an enum or
-- attributes of a composite, as the source describes its own types; no row if this server has no such type.
SELECT t.typtype::text,
       CASE t.typtype
           WHEN 'd' THEN (
               WITH RECURSIVE level AS (
                   SELECT t.typbasetype AS base, t.typtypmod AS length
                   UNION ALL
                   SELECT d.typbasetype, d.typtypmod FROM level l JOIN pg_type d ON d.oid = l.base AND d.typtype = 'd')
               SELECT CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, l.length)) = 1
                    THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, l.length)
               FROM level l JOIN pg_type y ON y.oid = l.base AND y.typtype <> 'd'
               JOIN pg_namespace m ON m.oid = y.typnamespace)
           WHEN 'r' THEN (
               SELECT CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, NULL)) = 1
                    THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, NULL)
               FROM pg_range r JOIN pg_type y ON y.oid = r.rngsubtype JOIN pg_namespace m ON m.oid = y.typnamespace
               WHERE r.rngtypid = t.oid)
           ELSE '' END,
       CASE t.typtype
           WHEN 'e' THEN ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
           WHEN 'c' THEN ARRAY(
               SELECT quote_ident(p.attname) || ' ' ||
                      CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, p.atttypmod)) = 1
                           THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, p.atttypmod)
               FROM pg_attribute p JOIN pg_type y ON y.oid = p.atttypid JOIN pg_namespace m ON m.oid = y.typnamespace
               WHERE p.attrelid = t.typrelid AND p.attnum > 0 AND NOT p.attisdropped ORDER BY p.attnum)
           ELSE ARRAY[]::text[] END
FROM pg_type t WHERE t.oid = to_regtype(%(type)s)

-- name: type_dws
-- The same, for a server without to_regtype; for a domain over a domain, the inner domain is returned.
SELECT t.typtype::text,
       CASE t.typtype
           WHEN 'd' THEN (
               SELECT CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, t.typtypmod)) = 1
                    THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, t.typtypmod)
               FROM pg_type y JOIN pg_namespace m ON m.oid = y.typnamespace WHERE y.oid = t.typbasetype)
           WHEN 'r' THEN (
               SELECT CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, NULL)) = 1
                    THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, NULL)
               FROM pg_range r JOIN pg_type y ON y.oid = r.rngsubtype JOIN pg_namespace m ON m.oid = y.typnamespace
               WHERE r.rngtypid = t.oid)
           ELSE '' END,
       CASE t.typtype
           WHEN 'e' THEN ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
           WHEN 'c' THEN ARRAY(
               SELECT quote_ident(p.attname) || ' ' ||
                      CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, p.atttypmod)) = 1
                           THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, p.atttypmod)
               FROM pg_attribute p JOIN pg_type y ON y.oid = p.atttypid JOIN pg_namespace m ON m.oid = y.typnamespace
               WHERE p.attrelid = t.typrelid AND p.attnum > 0 AND NOT p.attisdropped ORDER BY p.attnum)
           ELSE ARRAY[]::text[] END
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE quote_ident(n.nspname) || '.' || quote_ident(t.typname) = %(type)s

-- name: names
-- The maximum length of a name in bytes, and the names of the system columns of every table. pg_attribute is a table
-- without OIDs; a table with OIDs also has a column `oid` (PostgreSQL 9.2, "System Columns").
SELECT current_setting('max_identifier_length')::int,
       ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = 'pg_attribute'::regclass AND attnum < 0)

-- name: knows
-- Whether this server has a type, built-in or user-defined.
SELECT to_regtype(%(type)s) IS NOT NULL

-- name: knows_dws
-- Whether this server has a user-defined type, by its name without a length.
SELECT EXISTS (SELECT 1 FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
               WHERE quote_ident(n.nspname) || '.' || quote_ident(t.typname) = %(type)s)

-- name: cast
-- The conversion from one type to another: whether the types are the same, the context of the cast (empty without a
-- cast), and the category of the other type.
SELECT s.oid = t.oid,
       coalesce((SELECT c.castcontext::text FROM pg_cast c WHERE c.castsource = s.oid AND c.casttarget = t.oid), ''),
       t.typcategory::text
FROM pg_type s, pg_type t WHERE s.oid = %(there)s::regtype AND t.oid = %(wanted)s::regtype

-- name: collations
-- Those of these collations, written with their schemas, that this server has for its encoding; except collations in
-- which different strings are equal, because a key would then merge several rows of the source.
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.collname)
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace JOIN pg_database d ON d.datname = current_database()
WHERE quote_ident(n.nspname) || '.' || quote_ident(c.collname) = ANY (%(names)s)
  AND c.collencoding IN (-1, d.encoding) AND c.collisdeterministic

-- name: collations_dws
-- The same; all collations of DWS distinguish different strings.
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.collname)
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace JOIN pg_database d ON d.datname = current_database()
WHERE quote_ident(n.nspname) || '.' || quote_ident(c.collname) = ANY (%(names)s)
  AND c.collencoding IN (-1, d.encoding)
