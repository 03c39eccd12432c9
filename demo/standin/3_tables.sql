-- STAND-IN for the binlog functions of DWS. This file creates the objects of one binlog table, from its real columns.
--
-- dws.b_<oid>           the records, partitioned by DN; columns c<attnum>, so that renaming a column changes nothing
-- dws.t_<oid>_{i,u,d}   trigger functions; sequence = 2, 3, ... within the transaction, stored in a transaction-local
--                       setting that savepoints roll back
-- dws_rel_<oid>.pgxc_get_binlog_changes   the reader: a SQL function that PostgreSQL inlines, so it streams

CREATE FUNCTION dws.columns_of(oid, OUT attnum smallint, OUT name text, OUT type text, OUT in_key boolean)
RETURNS SETOF record LANGUAGE sql STABLE AS $$
SELECT a.attnum, a.attname::text, format_type(a.atttypid, a.atttypmod), coalesce(a.attnum = ANY (k.conkey), false)
FROM pg_attribute a LEFT JOIN pg_constraint k ON k.conrelid = a.attrelid AND k.contype = 'p'
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum $$;

-- The DN of a row `r` as an expression: the hash functions are chained through their seed, so any key works.
CREATE FUNCTION dws.dn_expression(rel oid, r text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    hash text := '0';
    part text;
    item record;
    ords smallint[] := (SELECT array_agg(ord ORDER BY ord) FROM dws.node);
BEGIN
    FOR item IN SELECT d.name, c.type FROM dws.tab t, unnest(t.distribute_by) WITH ORDINALITY d(name, pos)
                JOIN dws.columns_of($1) c ON c.name = d.name WHERE t.rel = $1 ORDER BY d.pos LOOP
        part := format('%s.%I', r, item.name);
        hash := CASE
            WHEN item.type IN ('smallint', 'integer', 'bigint') THEN format('hashint8extended(%s::bigint, %s)', part, hash)
            WHEN item.type ~ '^(text|character)' THEN format('hashtextextended(%s::text, %s)', part, hash)
            ELSE format('hash_record_extended(ROW(%s), %s)', part, hash) END;
    END LOOP;
    part := format('(%s & 9223372036854775807) %% %s', hash, cardinality(ords));
    RETURN CASE WHEN ords[cardinality(ords)] = cardinality(ords) - 1 THEN format('(%s)::smallint', part)
        ELSE format('(%L::smallint[])[%s + 1]', ords, part) END;  -- a DN was removed
END $$;

CREATE FUNCTION dws.build_store(rel oid) RETURNS void LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    n record;
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS dws.b_%s', $1);
    EXECUTE format('CREATE TABLE dws.b_%s (dn smallint NOT NULL, xid xid8 NOT NULL, seq bigint NOT NULL, '
        'typ "char" NOT NULL, ts_us bigint, %s) PARTITION BY LIST (dn)', $1,
        (SELECT string_agg(format('c%s %s', c.attnum, c.type), ', ' ORDER BY c.attnum) FROM dws.columns_of($1) c));
    FOR n IN SELECT ord FROM dws.node LOOP
        EXECUTE format('CREATE TABLE dws.b_%s_%s PARTITION OF dws.b_%1$s FOR VALUES IN (%2$s)', $1, n.ord);
    END LOOP;
    EXECUTE format('CREATE INDEX ON dws.b_%s (xid, seq)', $1);
    EXECUTE format('GRANT SELECT ON dws.b_%s TO dws_readers', $1);
    UPDATE dws.tab t SET (names, types) =
        (SELECT array_agg(c.name), array_agg(c.attnum || ' ' || c.type) FROM dws.columns_of($1) c) WHERE t.rel = $1;
END $$;

-- One INSERT of records from a transition table; `number` is the sequence of the nth row.
CREATE FUNCTION dws.record_sql(rel oid, rows text, typ text, number text, key_only boolean)
RETURNS text LANGUAGE sql STABLE AS $$
SELECT format('INSERT INTO dws.b_%s (dn, xid, seq, typ, ts_us, %s) SELECT %s, pg_current_xact_id(), %s, %L, %s, %s FROM %s r',
    $1, string_agg('c' || c.attnum, ', ' ORDER BY c.attnum), dws.dn_expression($1, 'r'), number, typ,
    CASE WHEN (SELECT t.with_time FROM dws.tab t WHERE t.rel = $1)
         THEN '(extract(epoch FROM clock_timestamp()) * 1000000)::bigint' ELSE 'NULL' END,
    string_agg(CASE WHEN key_only AND NOT c.in_key THEN 'NULL' ELSE format('r.%I', c.name) END, ', ' ORDER BY c.attnum),
    rows) FROM dws.columns_of($1) c $$;

CREATE FUNCTION dws.build_capture_function(rel oid, suffix text, step integer, VARIADIC statements text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format($f$CREATE OR REPLACE FUNCTION dws.t_%1$s_%2$s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $b$
        #variable_conflict use_column
        <<own>>
        DECLARE
            base bigint := coalesce(nullif(current_setting('dws.q%1$s', true), ''), '1');
            n bigint;
        BEGIN
            %3$s;
            GET DIAGNOSTICS n = ROW_COUNT;
            IF n > 0 THEN
                PERFORM set_config('dws.q%1$s', (base + %4$s * n)::text, true);
                IF current_setting('dws.marked', true) IS DISTINCT FROM '1' THEN
                    PERFORM set_config('dws.marked', '1', true);
                    INSERT INTO dws.mark VALUES (pg_current_xact_id());
                END IF;
            END IF;
            RETURN NULL;
        END $b$ $f$, $1, suffix, array_to_string(statements, ';'), step);
END $$;

-- Transition tables preserve the order in which rows were changed; B and U of a row get adjacent numbers.
CREATE FUNCTION dws.build_capture(rel oid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    key_only boolean := NOT dws.is_on('full_old_images');
    nth text := 'own.base + row_number() OVER ()';  -- a table may have a column `base`
BEGIN
    PERFORM dws.build_capture_function($1, 'i', 1, dws.record_sql($1, 'new_rows', 'I', nth, false));
    PERFORM dws.build_capture_function($1, 'd', 1, dws.record_sql($1, 'old_rows', 'd', nth, key_only));
    PERFORM dws.build_capture_function($1, 'u', 2,
        dws.record_sql($1, 'old_rows', 'B', 'own.base + 2 * row_number() OVER () - 1', key_only),
        dws.record_sql($1, 'new_rows', 'U', 'own.base + 2 * row_number() OVER ()', false));
END $$;

-- Record rows written into `place`, the table or one of its children, as changes of `rel`; trigger names start with
-- `prefix`.
CREATE FUNCTION dws.build_recording(rel oid, place oid, prefix text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows '
        'FOR EACH STATEMENT WHEN (dws.recording(%s)) EXECUTE FUNCTION dws.t_%3$s_i()', prefix || 'i', place::regclass, $1);
    EXECUTE format('CREATE TRIGGER %I AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows '
        'FOR EACH STATEMENT WHEN (dws.recording(%s)) EXECUTE FUNCTION dws.t_%3$s_u()', prefix || 'u', place::regclass, $1);
    EXECUTE format('CREATE TRIGGER %I AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows '
        'FOR EACH STATEMENT WHEN (dws.recording(%s)) EXECUTE FUNCTION dws.t_%3$s_d()', prefix || 'd', place::regclass, $1);
END $$;

CREATE FUNCTION dws.build_triggers(rel oid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    keys text;
    changed text;
BEGIN
    SELECT string_agg(format('%I', k), ', '), string_agg(format('OLD.%I IS DISTINCT FROM NEW.%1$I', k), ' OR ')
    INTO keys, changed FROM dws.tab t, unnest(t.distribute_by) k WHERE t.rel = $1;
    EXECUTE format('CREATE TRIGGER zz_dws_key BEFORE UPDATE OF %s ON %s FOR EACH ROW WHEN (%s) '
                   'EXECUTE FUNCTION dws.refuse_redistribution()', keys, $1::regclass, changed);
    PERFORM dws.build_recording($1, $1, 'zz_dws_');
    EXECUTE format('CREATE TRIGGER zz_dws_t AFTER TRUNCATE ON %s FOR EACH STATEMENT '
        'EXECUTE FUNCTION dws.after_truncate()', $1::regclass);
END $$;

-- How DWS treats a column with the name of a binlog column is not documented; error text invented.
CREATE FUNCTION dws.refuse_names(rel oid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own text[] := CASE WHEN dws.is_on('new_system_names')
        THEN '{gs_binlog_sync_point,gs_binlog_event_sequence,gs_binlog_event_type,gs_binlog_timestamp_us}'::text[]
        ELSE '{sync_point,event_sequence,type}' END;
    taken text := (SELECT string_agg(c.name, ', ' ORDER BY c.name) FROM dws.columns_of($1) c WHERE c.name = ANY (own));
BEGIN
    IF taken IS NOT NULL THEN
        RAISE EXCEPTION 'stand-in: the binlog has a column % of its own', taken USING ERRCODE = '42701';
    END IF;
END $$;

-- The reader. Bounds and names are constants in it; the CASEs fold to constants or to one check per call. It is
-- generated as PL/pgSQL, and not inlined, only while a DN is down or hangs, to check for that first, and while readings
-- are recorded.
CREATE FUNCTION dws.build_reader(rel oid) RETURNS void LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    new_names boolean := dws.is_on('new_system_names');
    noted boolean := EXISTS (SELECT FROM dws.reading);
    gated boolean := noted OR EXISTS (SELECT FROM dws.control WHERE kind IN ('down', 'hang'));
    nodes text := (SELECT string_agg(format('WHEN %s THEN %s::smallint', node_id, ord), ' ') FROM dws.node);
    shape text := (SELECT string_agg(format('%I %s', c.name, c.type), ', ' ORDER BY c.attnum) FROM dws.columns_of($1) c);
    picked text := (SELECT string_agg('b.c' || c.attnum, ', ' ORDER BY c.attnum) FROM dws.columns_of($1) c);
    query text;
    header text;
BEGIN
    PERFORM dws.refuse_names($1);
    shape := CASE WHEN new_names THEN 'gs_binlog_sync_point bigint, gs_binlog_event_sequence bigint, '
        'gs_binlog_event_type "char", gs_binlog_timestamp_us bigint, '
        ELSE 'sync_point bigint, event_sequence bigint, type "char", ' END || shape;
    query := format('SELECT x.csn, b.seq, b.typ, %s%s FROM dws.binlog_tx x JOIN dws.b_%s b ON b.xid = x.xid '
        'WHERE x.csn %s $3 AND x.csn %s $4 AND ($2 = 0 OR b.dn = CASE $2 %s ELSE dws.no_node($2) END) '
        'AND CASE WHEN to_regclass($1) = %s AND has_table_privilege(%s, ''SELECT'') THEN true '
        'ELSE dws.not_this_table($1) END', CASE WHEN new_names THEN 'b.ts_us, ' ELSE '' END, picked, $1,
        CASE WHEN dws.is_on('start_inclusive') THEN '>=' ELSE '>' END,
        CASE WHEN dws.is_on('end_inclusive') THEN '<=' ELSE '<' END, nodes, $1::text || '::oid', $1);
    header := format('dws_rel_%s.pgxc_get_binlog_changes(text, integer, bigint, bigint)', $1);
    query := format('CREATE OR REPLACE FUNCTION %s RETURNS TABLE (%s) ', header, shape) || CASE WHEN gated
        THEN format('LANGUAGE plpgsql VOLATILE AS $q$ #variable_conflict use_column
                     DECLARE n bigint;
                     BEGIN PERFORM dws.gate($2); RETURN QUERY %s; %s END $q$', query, CASE WHEN noted
                     THEN 'GET DIAGNOSTICS n = ROW_COUNT; PERFORM dws.note_reading($4 - $3, n);' ELSE '' END)
        ELSE format('LANGUAGE sql STABLE ROWS 10000 AS $q$ %s $q$', query) END;
    EXECUTE format('CREATE SCHEMA IF NOT EXISTS dws_rel_%s', $1);
    EXECUTE format('GRANT USAGE ON SCHEMA dws_rel_%s TO PUBLIC', $1);
    BEGIN
        EXECUTE query;
    EXCEPTION WHEN invalid_function_definition THEN  -- columns changed
        EXECUTE 'DROP FUNCTION ' || header;
        EXECUTE query;
    END;
END $$;

-- xc_node_id as an attribute: `t.xc_node_id` calls this function, `SELECT *` does not include it. Unlike on DWS,
-- `xc_node_id` without the table's name or alias is not recognized. The function depends on the table's row type, so it
-- is dropped with the table; another session may have dropped both.
CREATE FUNCTION dws.build_xc_node_id(rel oid) RETURNS void LANGUAGE plpgsql SET client_min_messages = warning AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = $1) THEN
        RETURN;
    END IF;
    EXECUTE format('DROP FUNCTION IF EXISTS pg_catalog.xc_node_id(%s)', $1::regclass);
    IF dws.is_on('xc_node_id') THEN
        EXECUTE format('CREATE FUNCTION pg_catalog.xc_node_id(%s) RETURNS integer LANGUAGE sql STABLE AS '
            '$q$ SELECT (ARRAY[%s])[%s + 1] $q$', $1::regclass,
            (SELECT string_agg(coalesce(node_id::text, 'NULL'), ', ' ORDER BY n)
             FROM generate_series(0, (SELECT max(ord) FROM dws.node)) n LEFT JOIN dws.node ON ord = n),
            dws.dn_expression($1, '$1'));
        UPDATE pg_depend SET deptype = 'a' WHERE classid = 'pg_proc'::regclass AND refclassid = 'pg_type'::regclass
            AND refobjid = (SELECT c.reltype FROM pg_class c WHERE c.oid = $1)
            AND objid IN (SELECT p.oid FROM pg_proc p WHERE p.proname = 'xc_node_id');
    END IF;
END $$;

-- The effect of ALTER TABLE t SET (enable_binlog = on, binlog_ttl = ...) and DISTRIBUTE BY HASH in DWS.
CREATE FUNCTION dws.enable_binlog(
    rel_name text, ttl integer DEFAULT 86400, "timestamp" boolean DEFAULT false, distribute_by text[] DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    rel oid := rel_name::regclass;
    keys text[] := (SELECT array_agg(a.attname::text ORDER BY p.n)
                    FROM pg_constraint c, unnest(c.conkey) WITH ORDINALITY p(k, n) JOIN pg_attribute a ON a.attnum = p.k
                    WHERE c.conrelid = rel_name::regclass AND c.contype = 'p' AND a.attrelid = c.conrelid);
BEGIN
    IF keys IS NULL OR NOT coalesce(distribute_by, keys[1:1]) <@ keys THEN
        RAISE EXCEPTION 'stand-in: a binlog table needs a primary key that contains its distribution columns'
            USING ERRCODE = '42P16';
    END IF;
    INSERT INTO dws.tab (rel, ttl_s, with_time, distribute_by)
    VALUES (rel, ttl, "timestamp", coalesce(distribute_by, keys[1:1]));
    INSERT INTO dws.shard (rel, dn) SELECT rel, ord FROM dws.node;
    -- PostgreSQL rejects options that it does not know, but retains existing ones
    UPDATE pg_class SET reloptions = coalesce(reloptions, ARRAY['enable_hstore_opt=on']) || ARRAY['binlog_ttl=' || ttl,
        CASE WHEN "timestamp" THEN 'enable_binlog_timestamp=on' ELSE 'enable_binlog=on' END] WHERE oid = rel;
    PERFORM dws.build_store(rel), dws.build_capture(rel), dws.build_triggers(rel), dws.record_below(rel),
        dws.build_reader(rel), dws.build_xc_node_id(rel);
END $$;
