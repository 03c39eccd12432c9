-- STAND-IN for the binlog functions of DWS. This file records written rows, and purges old records.

-- One row per writing transaction; exists only so that a deferred trigger can fire. purge() empties the table.
CREATE UNLOGGED TABLE dws.mark (xid xid8 NOT NULL);

-- Return whether this session's changes are recorded; "off" is for bulk loads and backfills. A trigger's WHEN calls
-- this with the snapshot of the writing statement: a statement that started before the first slot existed records
-- nothing.
CREATE FUNCTION dws.recording(oid) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN coalesce(current_setting('dws.enable_generate_binlog', true), 'on') NOT IN ('off', 'false', 'no', '0')
        AND EXISTS (SELECT FROM dws.slot WHERE rel = $1);
END $$;

-- Runs at commit. It forces synchronous_commit, because losing a commit whose point was read is worse than a slow
-- commit.
CREATE FUNCTION dws.at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    handed_out bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    SELECT last_value INTO handed_out FROM dws.csn;
    PERFORM pg_advisory_xact_lock_shared(dws.lock_base() + handed_out);
    INSERT INTO dws.binlog_tx VALUES (NEW.xid, nextval('dws.csn'),
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint, extract(epoch FROM clock_timestamp()) * 1000000);
    RETURN NULL;
END $$;

-- SEEDED FAULT that the tests must detect: points in the order of writing, without lower bounds. Loses rows.
CREATE FUNCTION dws.at_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO dws.binlog_tx VALUES (NEW.xid, nextval('dws.csn'),
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint, extract(epoch FROM clock_timestamp()) * 1000000);
    RETURN NULL;
END $$;

CREATE FUNCTION dws.order_points(naive boolean) RETURNS void LANGUAGE plpgsql SET client_min_messages = warning AS $$
BEGIN
    DROP TRIGGER IF EXISTS point ON dws.mark;
    IF naive THEN
        CREATE TRIGGER point AFTER INSERT ON dws.mark FOR EACH ROW EXECUTE FUNCTION dws.at_write();
    ELSE
        CREATE CONSTRAINT TRIGGER point AFTER INSERT ON dws.mark DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION dws.at_commit();
    END IF;
END $$;
SELECT dws.order_points(false);

-- error text invented; DWS also rejects this update
CREATE FUNCTION dws.refuse_redistribution() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'Distributed key column can''t be updated in current version' USING ERRCODE = '0A000';
END $$;

-- The point below which records of (table, dn) can be deleted: the smallest registered point, whose own records are
-- retained. Tables with time retain all records for the TTL. A DN without points, in a table with points on other DNs,
-- retains all.
CREATE FUNCTION dws.purge_bound(oid, smallint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    safe bigint := dws.first_unsafe();
    bound bigint;
    tab dws.tab;
BEGIN
    SELECT * INTO tab FROM dws.tab WHERE rel = $1;
    IF tab.with_time THEN
        SELECT csn INTO bound FROM dws.binlog_tx
        WHERE ts_us >= extract(epoch FROM clock_timestamp() - tab.ttl_s * interval '1 second') * 1000000
        ORDER BY csn LIMIT 1;
    ELSIF EXISTS (SELECT FROM dws.slot WHERE rel = $1) THEN
        SELECT coalesce(min(sync_point), 0) INTO bound FROM dws.slot WHERE rel = $1 AND dn = $2;
    END IF;
    RETURN least(safe, coalesce(bound, safe));
END $$;

-- Delete the records of up to `batch` transactions; return true if more remain.
CREATE FUNCTION dws.purge_some(oid, smallint, batch integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    done bigint;
    bound bigint := dws.purge_bound($1, $2);
    until bigint;
BEGIN
    SELECT purged_to INTO done FROM dws.shard WHERE rel = $1 AND dn = $2;
    IF done IS NULL OR done >= bound THEN
        RETURN false;
    END IF;
    SELECT purged_to INTO done FROM dws.shard WHERE rel = $1 AND dn = $2 FOR UPDATE;
    SELECT csn INTO until FROM dws.binlog_tx WHERE csn >= done AND csn < bound ORDER BY csn OFFSET batch LIMIT 1;
    EXECUTE format('DELETE FROM dws.b_%s b USING dws.binlog_tx x '
                   'WHERE x.csn >= $1 AND x.csn < $2 AND b.xid = x.xid AND b.dn = $3', $1)
        USING done, coalesce(until, bound), $2;
    UPDATE dws.shard SET purged_to = greatest(purged_to, coalesce(until, bound)) WHERE rel = $1 AND dn = $2;
    RETURN until IS NOT NULL;
END $$;

CREATE FUNCTION dws.purge_now(oid, smallint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WHILE dws.purge_some($1, $2, 20000) LOOP
    END LOOP;
END $$;

-- Delete rows without a table: transactions below every table's purged_to, and old marks.
CREATE FUNCTION dws.purge_transactions() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM dws.binlog_tx WHERE csn < (SELECT min(purged_to) FROM dws.shard);
    DELETE FROM dws.mark WHERE xid < pg_snapshot_xmin(pg_current_snapshot());
END $$;
