-- STAND-IN for the binlog functions of DWS. This file handles TRUNCATE and DDL. ADD COLUMN, DROP COLUMN, SET TYPE and
-- TRUNCATE delete records and points in the transaction that runs them; VACUUM FULL and RENAME delete nothing.

-- DELETE, not TRUNCATE: readers with an older snapshot continue, and no session waits for a reader.
CREATE FUNCTION dws.wipe(oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM dws.slot WHERE rel = $1;
    EXECUTE format('DELETE FROM dws.b_%s', $1);
END $$;

CREATE FUNCTION dws.after_truncate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM dws.wipe(TG_RELID);
    RETURN NULL;
END $$;

CREATE FUNCTION dws.after_alter(oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    old dws.tab;
    new_names text[] := (SELECT array_agg(c.name) FROM dws.columns_of($1) c);
    new_types text[] := (SELECT array_agg(c.attnum || ' ' || c.type) FROM dws.columns_of($1) c);
BEGIN
    SELECT * INTO old FROM dws.tab WHERE rel = $1;
    IF old.types <> new_types THEN
        PERFORM dws.wipe($1), dws.build_store($1);
    ELSIF old.names = new_names THEN
        RETURN;
    END IF;
    UPDATE dws.tab t SET names = new_names, distribute_by = (
        SELECT array_agg(new_names[array_position(old.names, d.name)] ORDER BY d.pos)
        FROM unnest(old.distribute_by) WITH ORDINALITY d(name, pos))
    WHERE t.rel = $1 AND old.types = new_types;
    PERFORM dws.build_capture($1), dws.build_reader($1), dws.build_xc_node_id($1);
END $$;

CREATE FUNCTION dws.ddl_end() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    changed oid[] := (SELECT array_agg(c.objid) FROM pg_event_trigger_ddl_commands() c
                      WHERE c.classid = 'pg_class'::regclass);
BEGIN
    PERFORM dws.after_alter(t.rel) FROM dws.tab t WHERE t.rel = ANY (changed);
    PERFORM dws.record_below(t.rel) FROM dws.tab t WHERE t.rel IN (SELECT dws.tables_above(c) FROM unnest(changed) c);
    IF TG_TAG = 'ALTER TABLE' THEN
        PERFORM dws.forget_detached();
    END IF;
END $$;

-- Exactly the objects that this command dropped, because another session can drop other tables at the same time.
CREATE FUNCTION dws.dropped() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
SET client_min_messages = warning AS $$
DECLARE
    gone oid;
BEGIN
    FOR gone IN SELECT t.rel FROM dws.tab t JOIN pg_event_trigger_dropped_objects() d
            ON d.objid = t.rel AND d.classid = 'pg_class'::regclass AND d.objsubid = 0 LOOP
        DELETE FROM dws.slot WHERE rel = gone;
        DELETE FROM dws.shard WHERE rel = gone;
        DELETE FROM dws.tab WHERE rel = gone;
        EXECUTE format('DROP TABLE dws.b_%s', gone);
        EXECUTE format('DROP SCHEMA dws_rel_%s CASCADE', gone);
        EXECUTE format('DROP FUNCTION dws.t_%s_i(), dws.t_%1$s_u(), dws.t_%1$s_d() CASCADE', gone);
    END LOOP;
END $$;

CREATE EVENT TRIGGER dws_ddl_end ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE')
    EXECUTE FUNCTION dws.ddl_end();
CREATE EVENT TRIGGER dws_dropped ON sql_drop WHEN TAG IN ('DROP TABLE', 'DROP SCHEMA', 'DROP OWNED')
    EXECUTE FUNCTION dws.dropped();
