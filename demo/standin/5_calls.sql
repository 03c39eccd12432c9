-- STAND-IN for the binlog functions of DWS. This file defines the documented functions, with their documented names,
-- arguments and columns. demo/switches.py replaces the words between @ signs once per configuration, so no switch is
-- read at run time. Arguments are used by position, because many have the name of a column.

-- The newest point of a table: the first safe point of the cluster, or with the control `own_latest` the one after the
-- table's own newest record (before the first record, and once all are purged, the one at which its binlog was enabled).
CREATE OR REPLACE FUNCTION dws.first_safe_of(rel oid) RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    safe bigint := dws.first_unsafe();
BEGIN
    IF EXISTS (SELECT FROM dws.control WHERE kind = 'own_latest') THEN
        RETURN greatest((SELECT max((dws.newest($1, n.ord, safe - 1)).csn) FROM dws.node n) + 1,
                        (SELECT t.begins_at FROM dws.tab t WHERE t.rel = $1));
    END IF;
    RETURN safe;
END $$;

-- `latest` as clients see it. It can be one point below an earlier result, but never below a registered point.
CREATE OR REPLACE FUNCTION dws.latest(t oid) RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS
$$ BEGIN RETURN dws.first_safe_of(t) @latest_offset@; END $$;

-- The xmin that DN number $2 reports: the oldest open transaction, slightly lower on each further DN.
CREATE OR REPLACE FUNCTION dws.xmin_of(rel oid, dn smallint, floor_xid bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER AS
$$ BEGIN RETURN greatest(3, least($3 - $2 @slots_xmin@)); END $$;

-- Make this the table that pgxc_get_binlog_changes reads in this session.
CREATE OR REPLACE FUNCTION dws.orient(oid) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    IF current_setting('search_path') NOT LIKE format('dws\_rel\_%s, %%', $1) THEN
        PERFORM set_config('search_path', dws.reader_path($1), false);
    END IF;
END $$;

-- A query creates the missing points of (slot, checkpoint) if auto-creation is on, and sets the session's table. It
-- uses a transaction ID, so that xmin advances, unless dws.sight states that a status query uses none (9_sight.sql).
-- The search_path of the inner function is constant: PostgreSQL plans the statements of a function again if the
-- search_path has changed ("Managing Plan Caching"), which is so for each table that a session queries.
CREATE OR REPLACE FUNCTION dws.status_rows(t oid, slot_name text, checkpoint boolean, node_id integer)
RETURNS SETOF dws.sync_point_row LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
    latest bigint := dws.first_safe_of(t) @latest_offset@;
    floor_xid bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
BEGIN
    IF NOT (SELECT status_idle FROM dws.sight) THEN
        PERFORM pg_current_xact_id();
    END IF;
    @auto_create@
    RETURN QUERY SELECT q.* FROM (SELECT n.node_name, n.node_id, s.sync_point,
        CASE WHEN s.sync_point <= (SELECT c.last_value FROM dws.csn c) THEN greatest(latest, s.sync_point) ELSE latest END,
        dws.xmin_of($1, n.ord, floor_xid)
    FROM dws.node n JOIN dws.slot s ON s.dn = n.ord
    WHERE s.rel = $1 AND s.slot_name = $2 AND s.checkpoint = $3 AND $4 IN (0, n.node_id)
    UNION ALL SELECT e.node_name, e.node_id, 0, latest, 3 FROM dws.elsewhere e WHERE e.answers AND $4 = 0
    ) q ORDER BY random();
END $$;

CREATE OR REPLACE FUNCTION pg_catalog.pgxc_get_binlog_sync_point(
    rel_name text, slot_name text, checkpoint boolean, node_id integer)
RETURNS SETOF dws.sync_point_row LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    t oid := dws.enter($1, $4);
BEGIN
    PERFORM dws.orient(t);
    RETURN QUERY SELECT * FROM dws.status_rows(t, $2, $3, $4);
END $$;

CREATE OR REPLACE FUNCTION dws.create_points(oid, text, boolean, integer) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM dws.node n WHERE $4 IN (0, n.node_id) AND NOT EXISTS (SELECT FROM dws.slot s
               WHERE s.rel = $1 AND s.slot_name = $2 AND s.checkpoint = $3 AND s.dn = n.ord)) THEN
        INSERT INTO dws.slot SELECT $1, $2, n.ord, $3, 0, clock_timestamp(), 0
        FROM dws.node n WHERE $4 IN (0, n.node_id) ON CONFLICT DO NOTHING;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION dws.register_one(rel oid, slot text, dn smallint, point bigint, cp boolean, xmin bigint)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    old dws.slot;
BEGIN
    SELECT * INTO old FROM dws.slot s
    WHERE s.rel = $1 AND s.slot_name = $2 AND s.dn = $3 AND s.checkpoint = $5 FOR UPDATE;
    @refuse_backward@
    INSERT INTO dws.slot AS s VALUES ($1, $2, $3, $5, $4, clock_timestamp(), $6)
    ON CONFLICT ON CONSTRAINT slot_pkey DO UPDATE SET sync_point = $4, oldest_xmin = $6,
        sync_timestamp = @refreshed@;
END $$;

CREATE OR REPLACE FUNCTION pg_catalog.pgxc_register_binlog_sync_point(
    rel_name text, slot_name text, node_id integer, end_csn bigint, checkpoint boolean, xmin bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    t oid := dws.enter($1, $3);
    registered integer := 0;
    n dws.node;
BEGIN
    FOR n IN SELECT * FROM dws.node WHERE $3 IN (0, node_id) ORDER BY ord LOOP
        CONTINUE WHEN dws.ignored(n.node_id);
        PERFORM dws.register_one(t, $2, n.ord, $4, $5, $6);
        registered := registered + 1;
        @purge@
    END LOOP;
    @move_point@
    RETURN registered;
END $$;

-- The result is not documented; here, it is the number of DNs where both points were set to the latest one.
CREATE OR REPLACE FUNCTION pg_catalog.pgxc_register_full_sync_point(rel_name text, slot_name text)
RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    t oid := dws.enter($1, 0);
    latest bigint := dws.latest(t);
    floor_xid bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    registered integer := 0;
    n dws.node;
BEGIN
    FOR n IN SELECT * FROM dws.node ORDER BY ord LOOP
        CONTINUE WHEN dws.ignored(n.node_id);
        PERFORM dws.register_one(t, $2, n.ord, latest, cp, dws.xmin_of(t, n.ord, floor_xid))
        FROM unnest(ARRAY[false, true]) cp;
        registered := registered + 1;
        @purge@
    END LOOP;
    @move_point@
    RETURN registered;
END $$;

-- Per DN, the newest committed record at or below a bound: its point and time, or nulls.
CREATE OR REPLACE FUNCTION dws.newest(rel oid, dn smallint, bound bigint, OUT csn bigint, OUT ts_us bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    EXECUTE format('SELECT x.csn, b.ts_us FROM dws.binlog_tx x JOIN dws.b_%s b ON b.xid = x.xid WHERE b.dn = $1 '
                   'AND x.csn <= $2 ORDER BY x.csn DESC, b.seq DESC LIMIT 1', $1) INTO csn, ts_us USING $2, $3;
END $$;

-- Return 1 if every point of every slot is after the newest record.
CREATE OR REPLACE FUNCTION pg_catalog.pgxc_consumed_binlog_records(rel_name text, node_id integer)
RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    t oid := dws.enter($1, $2);
BEGIN
    RETURN (SELECT CASE WHEN count(*) = 0 THEN 1 ELSE 0 END FROM dws.node n JOIN dws.slot s ON s.rel = t AND s.dn = n.ord
            WHERE $2 IN (0, n.node_id) AND (dws.newest(t, n.ord, 9223372036854775807)).csn > s.sync_point @consumed@);
END $$;

CREATE OR REPLACE FUNCTION dws.time_of(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$$ SELECT timestamptz 'epoch' + us * interval '1 microsecond' $$;

CREATE OR REPLACE FUNCTION dws.unconsumed(rel oid, dn smallint, consumed bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    found bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM dws.binlog_tx x JOIN dws.b_%s b ON b.xid = x.xid '
                   'WHERE b.dn = $1 AND x.csn > $2', $1) INTO found USING $2, $3;
    RETURN found;
END $$;

CREATE OR REPLACE FUNCTION pg_catalog.pgxc_get_binlog_consume_progress(rel_name text, node_id integer)
RETURNS SETOF dws.progress_row LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    t oid := dws.enter($1, $2);
BEGIN
    RETURN QUERY SELECT n.node_name, n.node_id, s.slot_name, s.checkpoint, dws.time_of(done.ts_us),
        dws.time_of(newest.ts_us), coalesce(done.csn, s.sync_point), newest.csn,
        dws.unconsumed(t, n.ord, s.sync_point @consumed@)
    FROM dws.node n JOIN dws.slot s ON s.rel = t AND s.dn = n.ord
        CROSS JOIN LATERAL dws.newest(t, n.ord, s.sync_point @consumed@) done
        CROSS JOIN LATERAL dws.newest(t, n.ord, 9223372036854775807) newest
    WHERE $2 IN (0, n.node_id) ORDER BY random();
END $$;

CREATE OR REPLACE FUNCTION pg_catalog.pgxc_get_binlog_slots(rel_name text, node_id integer)
RETURNS SETOF dws.slot_row LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    t oid := dws.enter($1, $2);
BEGIN
    RETURN QUERY SELECT n.node_name, s.slot_name, s.sync_point, s.sync_timestamp, s.oldest_xmin, s.checkpoint
    FROM dws.node n JOIN dws.slot s ON s.rel = t AND s.dn = n.ord
    WHERE $2 IN (0, n.node_id) ORDER BY random();
END $$;

CREATE OR REPLACE FUNCTION pg_catalog.pgxc_binlog_clear_target_slot(rel_name text, slot_name text)
RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    t oid := dws.enter($1, 0);
    cleared integer;
BEGIN
    DELETE FROM dws.slot WHERE rel = t AND slot_name = $2;
    GET DIAGNOSTICS cleared = ROW_COUNT;
    RETURN cleared;
END $$;

-- The first safe record of a DN at or after a point and a time; one row per DN, empty if there is no such record. The
-- meaning of "first" for a time is not documented: with the control `by_time`, it is the earliest time of all visible
-- records.
CREATE OR REPLACE FUNCTION dws.cursor_at(t oid, point bigint, us bigint, node integer)
RETURNS SETOF dws.cursor_row LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    latest bigint := dws.first_safe_of(t) @latest_offset@;
    by_time boolean := us IS NOT NULL AND EXISTS (SELECT FROM dws.control WHERE kind = 'by_time');
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT n.node_name, n.node_id, $1, r.csn, r.ts_us, r.xmin FROM dws.node n LEFT JOIN LATERAL ('
        'SELECT x.csn, b.ts_us, dws.xmin_of(%s::oid, n.ord, x.floor_xid) AS xmin '
        'FROM dws.binlog_tx x JOIN dws.b_%1$s b ON b.xid = x.xid WHERE b.dn = n.ord AND x.csn >= $2 AND x.csn < $3 '
        'AND ($4 IS NULL OR b.ts_us >= $4) ORDER BY %s LIMIT 1) r ON true WHERE $5 IN (0, n.node_id) ORDER BY random()',
        $1, CASE WHEN by_time THEN 'b.ts_us, x.csn' ELSE 'x.csn, b.seq' END)
        USING latest, $2, CASE WHEN by_time THEN 9223372036854775807 ELSE dws.first_unsafe() END, $3, $4;
END $$;

-- Sets the session's table like a sync-point call, so that a client can read changes without naming a slot.
CREATE OR REPLACE FUNCTION pg_catalog.pgxc_get_binlog_cursor_by_syncpoint(rel_name text, csn bigint, node_id integer)
RETURNS SETOF dws.cursor_row LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    t oid := dws.enter($1, $3);
BEGIN
    PERFORM dws.orient(t);
    RETURN QUERY SELECT * FROM dws.cursor_at(t, $2, NULL, $3);
END $$;

-- Only for tables with time. "timestamp" is the documented argument's name.
CREATE OR REPLACE FUNCTION pg_catalog.pgxc_get_binlog_cursor_by_timestamp(
    rel_name text, "timestamp" timestamptz, node_id integer)
RETURNS SETOF dws.cursor_row LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    t oid := dws.enter($1, $3);
BEGIN
    IF NOT (SELECT with_time FROM dws.tab WHERE rel = t) THEN
        RAISE EXCEPTION 'stand-in: enable_binlog_timestamp is off for "%"', $1 USING ERRCODE = '0A000';
    END IF;
    RETURN QUERY SELECT * FROM dws.cursor_at(t, 0, (extract(epoch FROM $2) * 1000000)::bigint, $3);
END $$;
