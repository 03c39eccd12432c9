-- STAND-IN for Hologres. This file defines what a client can query, with the names in "Subscribe to Hologres binlogs"
-- and in the published client.

CREATE FUNCTION pg_catalog.hg_version() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER AS $$
SELECT value FROM hg_standin.setting WHERE name = 'version' $$;

CREATE VIEW hologres.hg_table_properties AS
SELECT t.nsp AS table_namespace, t.name AS table_name, p.key AS property_key, p.value AS property_value
FROM hg_standin.tab t CROSS JOIN LATERAL (
    SELECT key, value FROM hg_standin.property x WHERE x.rel = t.rel
    UNION ALL VALUES ('table_id', t.table_id::text), ('schema_version', t.schema_version::text),
        ('table_group', 'tg_' || t.shards), ('distribution_key', array_to_string(t.distribute_by, ','))) p;

CREATE VIEW hologres.hg_table_group_properties AS
SELECT DISTINCT 'tg_' || shards AS tablegroup_name, 'shard_count' AS property_key, shards::text AS property_value
FROM hg_standin.tab;

-- The records of a table, for callers with the right to read it; errors as worded by Hologres.
CREATE FUNCTION hg_standin.log_of(tbl text, shard int) RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    t hg_standin.tab := (SELECT x FROM hg_standin.tab x WHERE x.rel = tbl::regclass);
BEGIN
    IF NOT has_table_privilege(session_user, tbl::regclass, 'SELECT') THEN
        RAISE EXCEPTION 'permission denied for table %', tbl USING ERRCODE = '42501';
    END IF;
    IF t.log IS NULL OR to_regclass(format('hg_log.%I', t.log)) IS NULL THEN
        RAISE EXCEPTION 'hg_binlog is not enabled for table %', tbl USING ERRCODE = '42703';
    END IF;
    IF shard NOT BETWEEN 0 AND t.shards - 1 THEN
        RAISE EXCEPTION 'Shard ID does not exist: %', shard USING ERRCODE = 'XX000';
    END IF;
    RETURN format('hg_log.%I', t.log);
END $$;

CREATE FUNCTION pg_catalog.hg_get_binlog_cursor(tbl text, which text, shard int,
    OUT hg_shard_id int, OUT hg_binlog_lsn bigint, OUT hg_binlog_timestamp_us bigint)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    log text := hg_standin.log_of(tbl, shard);
BEGIN
    IF which NOT IN ('OLDEST', 'LATEST') THEN
        RAISE EXCEPTION 'invalid cursor type %', which USING ERRCODE = '22023';
    END IF;
    hg_shard_id := shard;
    EXECUTE format('SELECT hg_binlog_lsn, hg_binlog_timestamp_us FROM %s WHERE hg_shard_id = %s ORDER BY hg_binlog_lsn %s LIMIT 1',
        log, shard, CASE which WHEN 'LATEST' THEN 'DESC' ELSE 'ASC' END) INTO hg_binlog_lsn, hg_binlog_timestamp_us;
    IF hg_binlog_lsn IS NULL THEN
        hg_binlog_lsn := 0;
        hg_binlog_timestamp_us := hg_standin.now_us();
    END IF;
    RETURN NEXT;
END $$;

-- After the end of the binlog: the LSN of the next write, and the current time.
CREATE FUNCTION hg_standin.first_of(log text, shard int, condition text,
    OUT hg_shard_id int, OUT hg_binlog_lsn bigint, OUT hg_binlog_timestamp_us bigint) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    hg_shard_id := shard;
    EXECUTE format('SELECT hg_binlog_lsn, hg_binlog_timestamp_us FROM %s WHERE hg_shard_id = %s AND %s ORDER BY hg_binlog_lsn LIMIT 1',
        log, shard, condition) INTO hg_binlog_lsn, hg_binlog_timestamp_us;
    IF hg_binlog_lsn IS NULL THEN
        hg_binlog_lsn := coalesce(pg_sequence_last_value(format('hg_standin.lsn_%s', shard)::regclass), 0) + 1;
        hg_binlog_timestamp_us := hg_standin.now_us();
    END IF;
END $$;

CREATE FUNCTION pg_catalog.hg_get_binlog_cursor_by_lsn(tbl text, lsn bigint, shard int,
    OUT hg_shard_id int, OUT hg_binlog_lsn bigint, OUT hg_binlog_timestamp_us bigint)
RETURNS SETOF record LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
SELECT * FROM hg_standin.first_of(hg_standin.log_of($1, $3), $3, 'hg_binlog_lsn >= ' || $2) $$;

CREATE FUNCTION pg_catalog.hg_get_binlog_cursor_by_timestamp(tbl text, at timestamptz, shard int,
    OUT hg_shard_id int, OUT hg_binlog_lsn bigint, OUT hg_binlog_timestamp_us bigint)
RETURNS SETOF record LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    IF at > clock_timestamp() THEN
        RAISE EXCEPTION 'Get binlog cursor in future time' USING ERRCODE = '22023';
    END IF;
    RETURN QUERY SELECT * FROM hg_standin.first_of(hg_standin.log_of(tbl, shard), shard,
        'hg_binlog_timestamp_us >= ' || (extract(epoch FROM at) * 1000000)::bigint);
END $$;

-- binlog.level none drops the binlog; replica starts a new one.
CREATE PROCEDURE pg_catalog.set_table_property(tbl text, key text, value text) LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    t hg_standin.tab := (SELECT x FROM hg_standin.tab x WHERE x.rel = tbl::regclass);
BEGIN
    IF t.rel IS NULL THEN  -- a table of CREATE TABLE, which is not intercepted here
        INSERT INTO hg_standin.tab (rel, nsp, name, shards, distribute_by, key, log)
        SELECT c.oid, n.nspname, c.relname, (SELECT count(*) FROM hg_standin.node), k.names, k.names, n.nspname || '.' || c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
            (SELECT array_agg(a.attname::text ORDER BY p.n) AS names
             FROM pg_constraint o, unnest(o.conkey) WITH ORDINALITY p(k, n) JOIN pg_attribute a ON a.attnum = p.k
             WHERE o.conrelid = tbl::regclass AND o.contype = 'p' AND a.attrelid = o.conrelid) k
        WHERE c.oid = tbl::regclass RETURNING * INTO t;
    END IF;
    IF key = 'binlog.level' AND to_regclass(format('hg_log.%I', t.log)) IS NOT NULL AND value = 'none' THEN
        EXECUTE format('DROP TRIGGER hg_binlog ON %1$I.%2$I; DROP TRIGGER hg_truncate ON %1$I.%2$I', t.nsp, t.name);
        EXECUTE format('DROP TABLE hg_log.%I', t.log);
    ELSIF key = 'binlog.level' AND value = 'replica' AND to_regclass(format('hg_log.%I', t.log)) IS NULL THEN
        PERFORM hg_standin.enable(t.rel, 2592000);
    END IF;
    INSERT INTO hg_standin.property VALUES (t.rel, key, value)
        ON CONFLICT ON CONSTRAINT property_pkey DO UPDATE SET value = excluded.value;
END $$;

-- DROP TABLE of a client, which also drops the table's records and its view.
CREATE PROCEDURE hg_standin.dropped(tbl text) LANGUAGE plpgsql SECURITY DEFINER SET client_min_messages = warning AS $$
DECLARE
    t hg_standin.tab := (SELECT x FROM hg_standin.tab x WHERE x.rel = to_regclass(tbl));
BEGIN
    IF to_regclass(tbl) IS NULL THEN
        RETURN;
    END IF;
    IF NOT pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = to_regclass(tbl)), 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of table %', tbl USING ERRCODE = '42501';
    END IF;
    EXECUTE format('DROP TABLE %s CASCADE', to_regclass(tbl));
    IF t.rel IS NOT NULL THEN
        EXECUTE format('DROP TABLE IF EXISTS hg_log.%I', t.log);
        EXECUTE format('DROP FUNCTION IF EXISTS hg_standin.written_%s()', t.rel);
        DELETE FROM hg_standin.property WHERE rel = t.rel;
        DELETE FROM hg_standin.tab WHERE rel = t.rel;
    END IF;
END $$;

GRANT USAGE ON SCHEMA hologres, hg_log, hg_base, hg_standin TO PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA hologres TO PUBLIC;
