-- Facts about user-defined types in DWS; read only if a table has such a type. Types are written as in the statement
-- `status` of queries.sql: with their schema, regardless of the search_path.

-- name: types
-- Return these types, or the element types of arrays: oid, name, kind (d domain, e enum, c composite, ...), a domain's
-- base type, the labels of an enum or the attributes of a composite, whether it is the row type of a table, the key of
-- that table, and the types that it contains.
SELECT t.oid::bigint, quote_ident(n.nspname) || '.' || quote_ident(t.typname), t.typtype::text,
       CASE WHEN t.typtype = 'd' THEN (
           SELECT CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, t.typtypmod)) = 1
                THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, t.typtypmod)
           FROM pg_type y JOIN pg_namespace m ON m.oid = y.typnamespace WHERE y.oid = t.typbasetype) ELSE '' END,
       CASE t.typtype
           WHEN 'e' THEN ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
           WHEN 'c' THEN ARRAY(
               SELECT quote_ident(p.attname) || ' ' ||
                      CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, p.atttypmod)) = 1
                           THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, p.atttypmod)
               FROM pg_attribute p JOIN pg_type y ON y.oid = p.atttypid JOIN pg_namespace m ON m.oid = y.typnamespace
               WHERE p.attrelid = t.typrelid AND p.attnum > 0 AND NOT p.attisdropped ORDER BY p.attnum)
           ELSE ARRAY[]::text[] END,
       coalesce(r.relkind IN ('r', 'p'), false),
       ARRAY(SELECT p.attname::text
             FROM pg_constraint c CROSS JOIN generate_series(1, 32) place
             JOIN pg_attribute p ON p.attrelid = c.conrelid AND p.attnum = c.conkey[place]
             WHERE c.conrelid = t.typrelid AND c.contype = 'p' AND place <= array_upper(c.conkey, 1) ORDER BY place),
       CASE t.typtype
           WHEN 'd' THEN ARRAY[t.typbasetype::bigint]
           WHEN 'c' THEN ARRAY(SELECT p.atttypid::bigint FROM pg_attribute p
                               WHERE p.attrelid = t.typrelid AND p.attnum > 0 AND NOT p.attisdropped)
           ELSE ARRAY[]::bigint[] END
FROM pg_type q
JOIN pg_type t ON t.oid = CASE WHEN q.typtype = 'b' AND q.typcategory = 'A' THEN q.typelem ELSE q.oid END
JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_class r ON r.oid = t.typrelid
WHERE n.nspname <> 'pg_catalog' AND q.oid = ANY (%(oids)s::oid[])

-- name: ranges
-- Return these ranges and multiranges: the range and its name, its multirange (0 if the server has no multiranges:
-- rngmultitypid is then the column of `absent`), the oid and name of the subtype, and the other options with which the
-- range was created.
SELECT g.rngtypid::bigint, quote_ident(n.nspname) || '.' || quote_ident(t.typname), g.many::bigint, g.rngsubtype::bigint,
       CASE WHEN m.nspname = 'pg_catalog' OR position(quote_ident(m.nspname) || '.' IN format_type(y.oid, NULL)) = 1
            THEN '' ELSE quote_ident(m.nspname) || '.' END || format_type(y.oid, NULL),
       array_to_string(ARRAY[
           CASE WHEN NOT o.opcdefault THEN 'subtype_opclass = ' || quote_ident(os.nspname) || '.' || quote_ident(o.opcname) END,
           CASE WHEN l.oid <> y.typcollation
                THEN 'collation = ' || quote_ident(ls.nspname) || '.' || quote_ident(l.collname) END,
           CASE WHEN w.typname <> CASE WHEN t.typname LIKE '%%range%%' THEN regexp_replace(t.typname, 'range', 'multirange')
                                       ELSE t.typname || '_multirange' END
                THEN 'multirange_type_name = ' || quote_ident(ws.nspname) || '.' || quote_ident(w.typname) END], ', ')
FROM (SELECT r.*, (SELECT rngmultitypid FROM pg_range x WHERE x.rngtypid = r.rngtypid) AS many
      FROM (SELECT rngtypid, rngsubtype, rngcollation, rngsubopc FROM pg_range) r
      CROSS JOIN (SELECT 0::oid AS rngmultitypid) absent) g
JOIN pg_type t ON t.oid = g.rngtypid JOIN pg_namespace n ON n.oid = t.typnamespace
JOIN pg_type y ON y.oid = g.rngsubtype JOIN pg_namespace m ON m.oid = y.typnamespace
JOIN pg_opclass o ON o.oid = g.rngsubopc JOIN pg_namespace os ON os.oid = o.opcnamespace
LEFT JOIN pg_collation l ON l.oid = g.rngcollation LEFT JOIN pg_namespace ls ON ls.oid = l.collnamespace
LEFT JOIN pg_type w ON w.oid = g.many LEFT JOIN pg_namespace ws ON ws.oid = w.typnamespace
WHERE g.rngtypid = ANY (%(oids)s::oid[]) OR g.many = ANY (%(oids)s::oid[])
