-- STAND-IN for the binlog functions of DWS, for the demo and the tests. Not GaussDB(DWS). This file creates the tables
-- and the commit-ordered sync points.
--
-- Commit order: a transaction gets its point at commit, in a deferred trigger, which FIRST takes a shared advisory lock
-- on the sequence's last value (a lower bound of its point) and THEN calls nextval. A query reads the sequence FIRST
-- and the locks SECOND. Every point below the smallest bound is complete and visible, because locks are released only
-- after a commit is visible.

CREATE SCHEMA dws;
GRANT USAGE ON SCHEMA dws TO PUBLIC;

CREATE FUNCTION dws.label() RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT 'Slotkeeper stand-in for the DWS binlog surface on PostgreSQL; not GaussDB(DWS)'::text $$;

-- ord is the DN's number (also the partition key), node_id the id that clients see
CREATE TABLE dws.node (
    ord smallint PRIMARY KEY, node_name name NOT NULL UNIQUE, node_id integer NOT NULL UNIQUE);

CREATE SEQUENCE dws.csn START 10000;
SELECT nextval('dws.csn');

-- one row per binlog table; names and types are the columns for which the store was built, so that DDL is detected;
-- begins_at is the first safe point at that time
CREATE TABLE dws.tab (
    rel oid PRIMARY KEY, ttl_s integer NOT NULL, with_time boolean NOT NULL, distribute_by text[] NOT NULL,
    names text[] NOT NULL DEFAULT '{}', types text[] NOT NULL DEFAULT '{}',
    begins_at bigint NOT NULL DEFAULT pg_sequence_last_value('dws.csn') + 1);

-- all records of (rel, dn) with a point below purged_to have been deleted
CREATE TABLE dws.shard (
    rel oid, dn smallint, purged_to bigint NOT NULL DEFAULT 0, PRIMARY KEY (rel, dn));

CREATE TABLE dws.slot (
    rel oid, slot_name text, dn smallint, checkpoint boolean, sync_point bigint NOT NULL,
    sync_timestamp timestamptz NOT NULL, oldest_xmin bigint NOT NULL,
    PRIMARY KEY (rel, slot_name, dn, checkpoint)) WITH (fillfactor = 50);

CREATE TABLE dws.binlog_tx (xid xid8 PRIMARY KEY, csn bigint NOT NULL, floor_xid bigint NOT NULL, ts_us bigint NOT NULL);
CREATE UNIQUE INDEX binlog_tx_csn ON dws.binlog_tx (csn) INCLUDE (xid);
GRANT SELECT ON dws.binlog_tx TO dws_readers;

CREATE TABLE dws.switch (name text PRIMARY KEY, is_on boolean NOT NULL);

-- run-time controls: kind is down, hang, by_time or own_latest (for any node) or partial (times = number of calls still to ignore)
CREATE TABLE dws.control (kind text, node_id integer, times integer NOT NULL DEFAULT 0, PRIMARY KEY (kind, node_id));

-- While a row exists, the changes function materializes the whole range, as DWS can under any LIMIT, and records it.
CREATE TABLE dws.reading (calls bigint NOT NULL, widest bigint NOT NULL, most_rows bigint NOT NULL);

CREATE FUNCTION dws.note_reading(points bigint, read bigint) RETURNS void LANGUAGE sql SECURITY DEFINER AS $$
UPDATE dws.reading SET calls = calls + 1, widest = greatest(widest, $1), most_rows = greatest(most_rows, $2) $$;

CREATE FUNCTION dws.is_on(switch text) RETURNS boolean LANGUAGE sql STABLE AS
$$ SELECT is_on FROM dws.switch WHERE name = $1 $$;

-- advisory lock keys of writers are 7305 << 40 plus a sync point
CREATE FUNCTION dws.lock_base() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 7305::bigint << 40 $$;

-- The first sync point that is not yet safe: all smaller ones are complete and visible to a NEW snapshot. An older
-- snapshot would miss commits between itself and this call, so only READ COMMITTED is allowed.
CREATE FUNCTION dws.first_unsafe() RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    handed_out bigint;
    bound bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'stand-in: binlog calls need READ COMMITTED, this transaction is %',
            current_setting('transaction_isolation') USING ERRCODE = '0A000';
    END IF;
    SELECT last_value INTO handed_out FROM dws.csn;
    -- not through the view pg_locks, which 9_sight.sql makes expensive to plan
    SELECT min(((classid::bigint << 32) | objid::bigint) - dws.lock_base()) INTO bound FROM pg_catalog.pg_lock_status()
    WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint >> 8) = 7305
      AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database());
    RETURN least(handed_out, coalesce(bound, handed_out)) + 1;
END $$;

-- Clear points that were not registered within the TTL of their table; every call runs this.
CREATE FUNCTION dws.lapse(oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM dws.slot s JOIN dws.tab t USING (rel)
               WHERE s.rel = $1 AND s.sync_timestamp < clock_timestamp() - t.ttl_s * interval '1 second') THEN
        DELETE FROM dws.slot s USING dws.tab t WHERE s.rel = $1 AND t.rel = $1
            AND s.sync_timestamp < clock_timestamp() - t.ttl_s * interval '1 second';
    END IF;
END $$;

-- Raise the error of a cluster with a failed DN (text from the vendor's psycopg2 guide), or wait as long as the DN
-- hangs.
CREATE FUNCTION dws.gate(integer) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    down name;
BEGIN
    IF NOT EXISTS (SELECT FROM dws.control) THEN
        RETURN;
    END IF;
    SELECT n.node_name INTO down FROM dws.control c JOIN dws.node n USING (node_id)
    WHERE c.kind = 'down' AND $1 IN (0, c.node_id) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'pooler: failed to create 1 connections, Error Message: remote node %, detail: could not '
            'connect to server: Operation now in progress', down USING ERRCODE = '08006';
    END IF;
    WHILE EXISTS (SELECT FROM dws.control c WHERE c.kind = 'hang' AND $1 IN (0, c.node_id)) LOOP
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;

-- Return whether to ignore a registration of this DN, and decrement the count.
CREATE FUNCTION dws.ignored(integer) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE dws.control SET times = times - 1 WHERE kind = 'partial' AND node_id = $1 AND times > 0;
    RETURN FOUND;
END $$;

-- Return the table's oid; reject unknown tables, tables without binlog, and callers without the right to read the
-- table.
CREATE FUNCTION dws.table_of(text) RETURNS oid LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    rel oid := to_regclass($1);
BEGIN
    IF rel IS NULL THEN
        RAISE EXCEPTION 'relation "%" does not exist', $1 USING ERRCODE = '42P01';
    ELSIF NOT EXISTS (SELECT FROM dws.tab t WHERE t.rel = to_regclass($1)) THEN
        RAISE EXCEPTION 'stand-in: table "%" has no binlog', $1 USING ERRCODE = '42809';
    ELSIF NOT has_table_privilege(session_user, rel, 'SELECT') THEN
        RAISE EXCEPTION 'permission denied for relation %', $1 USING ERRCODE = '42501';
    END IF;
    RETURN rel;
END $$;

-- The first action of every call: find the table, apply the DN's fault, clear expired points. Most sessions make few
-- calls, and each session compiles and plans each function again, so rarely needed functions are called only if needed.
CREATE FUNCTION dws.enter(text, integer) RETURNS oid LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    tab oid := dws.table_of($1);
    ttl interval := (SELECT t.ttl_s * interval '1 second' FROM dws.tab t WHERE t.rel = tab);
BEGIN
    IF $2 <> 0 AND NOT EXISTS (SELECT FROM dws.node WHERE node_id = $2) THEN
        RAISE EXCEPTION 'stand-in: no data node has the id %', $2 USING ERRCODE = '22023';
    END IF;
    IF EXISTS (SELECT FROM dws.control) THEN
        PERFORM dws.gate($2);
    END IF;
    IF EXISTS (SELECT FROM dws.slot s WHERE s.rel = tab AND s.sync_timestamp < clock_timestamp() - ttl) THEN
        PERFORM dws.lapse(tab);
    END IF;
    RETURN tab;
END $$;

-- Called by a reader's one-time checks if they fail.
CREATE FUNCTION dws.no_node(integer) RETURNS smallint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE EXCEPTION 'stand-in: no data node has the id %', $1 USING ERRCODE = '22023';
END $$;

CREATE FUNCTION dws.not_this_table(text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM dws.table_of($1);
    RAISE EXCEPTION 'stand-in: this session reads another table than "%"', $1 USING ERRCODE = '55000',
        HINT = 'Call pgxc_get_binlog_sync_point or ..._cursor_by_syncpoint for the table first, or SET search_path to dws.reader_path(table).';
END $$;

CREATE FUNCTION dws.reader_path(oid) RETURNS text LANGUAGE sql STABLE AS $$
SELECT format('dws_rel_%s, pg_catalog, %s', $1,
              regexp_replace(current_setting('search_path'), '^dws_rel_\d+, pg_catalog, ', '')) $$;

-- The search_path with which pgxc_get_binlog_changes reads this table.
CREATE FUNCTION dws.reader_path(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT dws.reader_path(dws.table_of($1)) $$;
