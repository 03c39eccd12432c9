-- STAND-IN for the binlog functions of DWS. This file adds, removes and renames DNs, and redistributes the rows. It is
-- documented that scaling waits until a table's binlog is consumed, by default for an hour, and otherwise fails for
-- that table. It is not documented what a new DN returns for a slot, so the caller of add_node chooses.

-- Lock all binlog tables against writers, as DWS does, and wait until every slot has consumed everything.
CREATE FUNCTION dws.await_consumed(seconds double precision) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    until timestamptz := clock_timestamp() + seconds * interval '1 second';
    unread text;
BEGIN
    LOOP
        SELECT t.rel::regclass::text INTO unread FROM dws.tab t
        WHERE pgxc_consumed_binlog_records(t.rel::regclass::text, 0) = 0 LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF clock_timestamp() >= until THEN
            RAISE EXCEPTION 'stand-in: the binlog of "%" was not consumed within % s', unread, seconds
                USING ERRCODE = '55000';
        END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;

CREATE FUNCTION dws.lock_tables() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    rel oid;
BEGIN
    FOR rel IN SELECT t.rel FROM dws.tab t JOIN pg_class c ON c.oid = t.rel ORDER BY t.rel LOOP
        EXECUTE format('LOCK TABLE %s IN EXCLUSIVE MODE', rel::regclass);
    END LOOP;
END $$;

-- Rebuild the objects that depend on the set of DNs: the location of rows, and the DNs that respond for them.
CREATE FUNCTION dws.redistribute() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dws.build_capture(rel), dws.build_reader(rel), dws.build_xc_node_id(rel) FROM dws.tab ORDER BY rel;
END $$;

-- Add a DN. With `points`, it has those of every registered slot, at the redistribution's own sync point; otherwise
-- none.
CREATE FUNCTION dws.add_node(name, integer, points boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    free smallint := (SELECT min(n) FROM generate_series(0, 64) n WHERE n NOT IN (SELECT ord FROM dws.node));
    point bigint := nextval('dws.csn');
    tab oid;
BEGIN
    INSERT INTO dws.node VALUES (free, $1, $2);
    FOR tab IN SELECT t.rel FROM dws.tab t ORDER BY t.rel LOOP
        INSERT INTO dws.shard VALUES (tab, free, point);
        EXECUTE format('CREATE TABLE IF NOT EXISTS dws.b_%s_%s PARTITION OF dws.b_%1$s FOR VALUES IN (%2$s)', tab, free);
    END LOOP;
    IF points THEN
        INSERT INTO dws.slot
        SELECT s.rel, s.slot_name, free, s.checkpoint, point, clock_timestamp(), min(s.oldest_xmin)
        FROM dws.slot s GROUP BY s.rel, s.slot_name, s.checkpoint HAVING min(s.sync_point) > 0;
    END IF;
    PERFORM dws.redistribute();
    RETURN point;
END $$;

-- Remove a DN with its records and points.
CREATE FUNCTION dws.remove_node(name) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    gone dws.node;
    tab oid;
BEGIN
    SELECT * INTO STRICT gone FROM dws.node WHERE node_name = $1;
    PERFORM nextval('dws.csn');
    DELETE FROM dws.node WHERE ord = gone.ord;
    DELETE FROM dws.slot WHERE dn = gone.ord;
    DELETE FROM dws.shard WHERE dn = gone.ord;
    DELETE FROM dws.control WHERE node_id = gone.node_id;
    FOR tab IN SELECT t.rel FROM dws.tab t ORDER BY t.rel LOOP
        EXECUTE format('DELETE FROM dws.b_%s WHERE dn = $1', tab) USING gone.ord;
    END LOOP;
    PERFORM dws.redistribute();
END $$;

-- Change a DN's name, and its id if one is given; move no rows.
CREATE FUNCTION dws.rename_node(name, name, integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE dws.node SET node_name = $2, node_id = coalesce($3, node_id) WHERE node_name = $1;
    PERFORM dws.build_reader(rel), dws.build_xc_node_id(rel) FROM dws.tab ORDER BY rel;
END $$;
