-- What decides whether a table can be a target: catalogs only. `oid` is the table's. A DWS is of PostgreSQL 9.2's time:
-- where its catalogs lack something, a statement has a second form for it, of the same columns.

-- name: oid
-- The table's oid; no row where there is none.
SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: relation
-- Kind and persistence (pg_class's letters), and whether row security applies to us; no row where there is no table.
SELECT c.relkind::text, c.relpersistence::text, row_security_active(c.oid)
FROM pg_class c WHERE c.oid = %(oid)s::oid

-- name: relation_dws
-- The same; row security of a DWS is not told by a function.
SELECT c.relkind::text, c.relpersistence::text, false FROM pg_class c WHERE c.oid = %(oid)s::oid

-- name: columns
-- Columns in order: name, type, must not be NULL, has a default or an identity, is always generated, computed by
-- the server; the base type of a domain, and whether the domain refuses NULL.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '' OR a.attidentity = 'a', a.attgenerated <> '',
       CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) ELSE '' END, t.typnotnull
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: columns_dws
-- The same; a DWS has neither identities nor generated columns.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef, false, false,
       CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) ELSE '' END, t.typnotnull
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: keys
-- Unique and exclusion indexes: name, the constraint's name or none, immediate, over all rows and plain columns, and
-- its columns; expressions have no name.
SELECT x.relname::text, k.conname::text, i.indimmediate, i.indpred IS NULL AND i.indexprs IS NULL AND i.indisunique,
       ARRAY(SELECT a.attname FROM unnest(i.indkey) WITH ORDINALITY n(number, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = n.number
             WHERE n.place <= i.indnkeyatts ORDER BY n.place)::text[]
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid
WHERE i.indrelid = %(oid)s::oid AND (i.indisunique OR i.indisexclusion) ORDER BY 1

-- name: keys_dws
-- The same, without WITH ORDINALITY; an index of a DWS has no columns that are only included.
SELECT x.relname::text, k.conname::text, i.indimmediate, i.indpred IS NULL AND i.indexprs IS NULL AND i.indisunique,
       ARRAY(SELECT a.attname FROM generate_series(0, 31) n
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]
             WHERE n < i.indnatts ORDER BY n)::text[]
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid
WHERE i.indrelid = %(oid)s::oid AND (i.indisunique OR i.indisexclusion) ORDER BY 1

-- name: folding
-- Columns under whose collation different texts are equal.
SELECT a.attname::text FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = %(oid)s::oid AND NOT a.attisdropped AND NOT l.collisdeterministic

-- name: folding_dws
-- The same; a DWS has one such collation (CREATE TABLE, COLLATE).
SELECT a.attname::text FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = %(oid)s::oid AND NOT a.attisdropped AND l.collname = 'case_insensitive'

-- name: foreign_keys
-- Foreign keys of the table, and of other tables onto it: name, table that has it, whether it is the target itself.
SELECT c.conname::text, c.conrelid::regclass::text, c.conrelid = %(oid)s::oid
FROM pg_constraint c
WHERE c.contype = 'f' AND %(oid)s::oid IN (c.conrelid, c.confrelid) ORDER BY 3 DESC, 1

-- name: triggers
-- Triggers of users that fire for ordinary sessions.
SELECT t.tgname::text FROM pg_trigger t
WHERE t.tgrelid = %(oid)s::oid AND NOT t.tgisinternal AND t.tgenabled NOT IN ('D', 'R') ORDER BY 1

-- name: rules
-- Rewrite rules, which would change our statements into others.
SELECT r.rulename::text FROM pg_rewrite r
WHERE r.ev_class = %(oid)s::oid AND r.ev_enabled NOT IN ('D', 'R') AND r.rulename <> '_RETURN' ORDER BY 1

-- name: type
-- A type by its spelling: kind, a domain's base type, an enum's labels or a composite's attributes, as the source tells
-- its own; no row where this server has no such type.
SELECT t.typtype::text, CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) ELSE '' END,
       CASE t.typtype
           WHEN 'e' THEN ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
           WHEN 'c' THEN ARRAY(SELECT quote_ident(p.attname) || ' ' || format_type(p.atttypid, p.atttypmod)
                               FROM pg_attribute p WHERE p.attrelid = t.typrelid AND p.attnum > 0
                               AND NOT p.attisdropped ORDER BY p.attnum)
           ELSE ARRAY[]::text[] END
FROM pg_type t WHERE t.oid = to_regtype(%(type)s)

-- name: type_dws
-- The same, for a server without to_regtype.
SELECT t.typtype::text, CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) ELSE '' END,
       CASE t.typtype
           WHEN 'e' THEN ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
           WHEN 'c' THEN ARRAY(SELECT quote_ident(p.attname) || ' ' || format_type(p.atttypid, p.atttypmod)
                               FROM pg_attribute p WHERE p.attrelid = t.typrelid AND p.attnum > 0
                               AND NOT p.attisdropped ORDER BY p.attnum)
           ELSE ARRAY[]::text[] END
FROM pg_type t WHERE format_type(t.oid, NULL) = %(type)s

-- name: knows
-- Whether this server has a type, built in or made.
SELECT to_regtype(%(type)s) IS NOT NULL

-- name: knows_dws
-- Whether this server has a type that somebody made, by the spelling of its name without a length.
SELECT EXISTS (SELECT 1 FROM pg_type t WHERE format_type(t.oid, NULL) = %(type)s)
