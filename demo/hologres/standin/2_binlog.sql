-- STAND-IN for Hologres. This file creates a table's binlog, which is filled when a transaction commits, and purges it.
--
-- hg_log."schema.name"    the records, by shard and LSN
-- hg_base."schema.name"   the table's rows with their hidden column hg_shard_id

-- LSNs of one shard, in the order of visibility: a committing session holds a lock until its changes are visible.
CREATE FUNCTION hg_standin.next_lsn(shard int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    lsn bigint := nextval(format('hg_standin.lsn_%s', shard)::regclass);
BEGIN
    IF lsn % 7 = 3 THEN  -- gaps are allowed
        lsn := nextval(format('hg_standin.lsn_%s', shard)::regclass);
    END IF;
    RETURN lsn;
END $$;

CREATE FUNCTION hg_standin.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS $$
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- Build a table's triggers from its columns, its shard, and the representation of updates (3 and 7, or 2 and 5).
CREATE FUNCTION hg_standin.build(rel oid) RETURNS void LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    t hg_standin.tab := (SELECT x FROM hg_standin.tab x WHERE x.rel = $1);
    names text := (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                   WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped);
    old_ text := (SELECT string_agg('OLD.' || quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                  WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped);
    new_ text := replace(old_, 'OLD.', 'NEW.');
    same text := (SELECT string_agg(format('OLD.%1$I = NEW.%1$I', k), ' AND ') FROM unnest(t.key) k);
    log text := format('hg_log.%I', t.log);
    record text := format('INSERT INTO %s (hg_shard_id, hg_binlog_lsn, hg_binlog_event_type, hg_binlog_timestamp_us, %s) ', log, names);
    pair text := (SELECT CASE value WHEN '3+7' THEN 'true' ELSE 'false' END FROM hg_standin.setting WHERE name = 'updates');
BEGIN
    EXECUTE format('CREATE OR REPLACE VIEW hg_base.%I AS SELECT %s AS hg_shard_id, t.* FROM %I.%I t',
        t.log, hg_standin.dn_expression($1, 't'), t.nsp, t.name);
    EXECUTE format($f$
CREATE OR REPLACE FUNCTION hg_standin.written_%1$s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $t$
DECLARE
    us bigint;
    a int;
    b int;
    first bigint;
BEGIN
    IF current_setting('hg_standin.generate_binlog', true) = 'off' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(7306, 1);
    us := hg_standin.now_us();
    IF TG_OP <> 'INSERT' THEN a := %2$s; END IF;
    IF TG_OP <> 'DELETE' THEN b := %3$s; END IF;
    IF TG_OP = 'UPDATE' AND %4$s AND %5$s THEN
        first := hg_standin.next_lsn(a);
        %6$s VALUES (a, first, 3, us, %7$s);
        %6$s VALUES (a, nextval(format('hg_standin.lsn_%%s', a)::regclass), 7, us, %8$s);
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        %6$s VALUES (a, hg_standin.next_lsn(a), 2, us, %7$s);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        %6$s VALUES (b, hg_standin.next_lsn(b), 5, us, %8$s);
    END IF;
    RETURN NULL;
END $t$ $f$, $1, hg_standin.dn_expression($1, 'OLD'), hg_standin.dn_expression($1, 'NEW'), same, pair, record, old_, new_);
END $$;

-- Turn a table's binlog on: its records, its triggers, its properties.
CREATE FUNCTION hg_standin.enable(rel oid, ttl_s int) RETURNS void LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    t hg_standin.tab := (SELECT x FROM hg_standin.tab x WHERE x.rel = $1);
BEGIN
    EXECUTE format('CREATE TABLE IF NOT EXISTS hg_log.%I AS SELECT 0 AS hg_shard_id, 0::bigint AS hg_binlog_lsn, '
        '0::bigint AS hg_binlog_event_type, 0::bigint AS hg_binlog_timestamp_us, x.* '
        'FROM %I.%I x WITH NO DATA', t.log, t.nsp, t.name);
    EXECUTE format('ALTER TABLE hg_log.%I ADD PRIMARY KEY (hg_shard_id, hg_binlog_lsn)', t.log);
    EXECUTE format('ALTER TABLE hg_log.%I ADD COLUMN hg_sequence_number bigint GENERATED ALWAYS AS (hg_binlog_lsn) STORED', t.log);
    PERFORM hg_standin.build($1);
    EXECUTE format('CREATE CONSTRAINT TRIGGER hg_binlog AFTER INSERT OR UPDATE OR DELETE ON %I.%I DEFERRABLE INITIALLY '
        'DEFERRED FOR EACH ROW EXECUTE FUNCTION hg_standin.written_%s()', t.nsp, t.name, $1);
    EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %I.%I ((%s), %s)', 'hg_shard_' || $1, t.nsp, t.name,
        hg_standin.dn_expression($1, quote_ident(t.name)), (SELECT string_agg(quote_ident(k), ', ') FROM unnest(t.key) k));
    EXECUTE format('CREATE TRIGGER hg_truncate BEFORE TRUNCATE ON %I.%I FOR EACH STATEMENT EXECUTE FUNCTION '
        'hg_standin.truncated()', t.nsp, t.name);
    EXECUTE format('GRANT SELECT ON hg_log.%I, hg_base.%1$I TO PUBLIC', t.log);
    INSERT INTO hg_standin.property VALUES ($1, 'binlog.level', 'replica'), ($1, 'binlog.ttl', ttl_s::text)
        ON CONFLICT ON CONSTRAINT property_pkey DO UPDATE SET value = excluded.value;
END $$;

-- TRUNCATE leaves no record; afterwards, the table counts as recreated, and its binlog is empty.
CREATE FUNCTION hg_standin.truncated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM hg_standin.rebuild(TG_RELID, (SELECT value = 'new id' FROM hg_standin.setting WHERE name = 'truncate'));
    RETURN NULL;
END $$;

-- Recreate a table: its LSNs restart, with a new id if `renamed`.
CREATE FUNCTION hg_standin.rebuild(rel oid, renamed boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t hg_standin.tab := (SELECT x FROM hg_standin.tab x WHERE x.rel = $1);
    n record;
BEGIN
    EXECUTE format('DELETE FROM hg_log.%I', t.log);
    FOR n IN SELECT ord FROM hg_standin.node LOOP
        EXECUTE format('ALTER SEQUENCE hg_standin.lsn_%s RESTART', n.ord);
    END LOOP;
    IF renamed THEN
        UPDATE hg_standin.tab x SET table_id = nextval('hg_standin.table_id') WHERE x.rel = $1;
    END IF;
END $$;

-- Delete records that are older than their table's binlog.ttl; return their number.
CREATE FUNCTION hg_standin.purge() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    t record;
    deleted bigint;
    gone bigint := 0;
BEGIN
    FOR t IN SELECT x.log, p.value::bigint AS ttl_s FROM hg_standin.tab x JOIN hg_standin.property p USING (rel)
             WHERE p.key = 'binlog.ttl' AND to_regclass(format('hg_log.%I', x.log)) IS NOT NULL LOOP
        EXECUTE format('DELETE FROM hg_log.%I WHERE hg_binlog_timestamp_us < %s', t.log, hg_standin.now_us() - t.ttl_s * 1000000);
        GET DIAGNOSTICS deleted = ROW_COUNT;
        gone := gone + deleted;
    END LOOP;
    RETURN gone;
END $$;
