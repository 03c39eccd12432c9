-- STAND-IN for the binlog functions of DWS. This file handles child tables of a binlog table. Partitions in DWS are not
-- separate tables, so rows that are written into a PostgreSQL partition, or into an inheriting table, are recorded as
-- changes of the parent table. A statement fires only the triggers of the table that it names, whose transition tables
-- contain the rows of all its children.

CREATE FUNCTION dws.tables_above(oid) RETURNS SETOF oid LANGUAGE sql STABLE AS $$
WITH RECURSIVE up (rel) AS (SELECT $1 UNION SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.rel)
SELECT rel FROM up $$;

CREATE FUNCTION dws.tables_below(oid) RETURNS SETOF oid LANGUAGE sql STABLE AS $$
WITH RECURSIVE down (rel) AS (SELECT $1 UNION SELECT i.inhrelid FROM down JOIN pg_inherits i ON i.inhparent = down.rel)
SELECT rel FROM down WHERE rel <> $1 $$;

-- Create triggers for new child tables of this table.
CREATE FUNCTION dws.record_below(oid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    below oid;
BEGIN
    FOR below IN SELECT b FROM dws.tables_below($1) b WHERE NOT EXISTS (
            SELECT FROM pg_trigger g WHERE g.tgrelid = b AND g.tgname = format('zz_dws_%s_i', $1)) LOOP
        PERFORM dws.build_recording($1, below, format('zz_dws_%s_', $1));
    END LOOP;
END $$;

-- Drop the triggers of tables that are no longer children.
CREATE FUNCTION dws.forget_detached() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    g record;
BEGIN
    FOR g IN SELECT tgname, tgrelid::regclass AS rel FROM pg_trigger WHERE tgname ~ '^zz_dws_\d+_[iud]$'
            AND substring(tgname FROM '\d+')::oid NOT IN (SELECT dws.tables_above(tgrelid)) LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', g.tgname, g.rel);
    END LOOP;
END $$;
