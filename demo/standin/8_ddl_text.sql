-- STAND-IN for the binlog functions of DWS. This file runs CREATE TABLE in the syntax of DWS. PostgreSQL's parser
-- rejects it, so the statement is an argument: SELECT dws.ddl('CREATE TABLE s.t (...) WITH (...) DISTRIBUTE BY HASH
-- (k)'). The clauses are parsed as documented by the vendor; the error texts are invented. The table is created with
-- the caller's own rights.

CREATE FUNCTION dws.ddl(statement text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    part text[] := regexp_match($1, '^CREATE TABLE ([^(]+) \((.+)\) WITH \(([^()]*)\) DISTRIBUTE BY HASH \(([^()]*)\)$');
BEGIN
    IF part IS NULL THEN
        RAISE EXCEPTION 'stand-in: not a CREATE TABLE ... WITH (...) DISTRIBUTE BY HASH (...)' USING ERRCODE = '42601';
    END IF;
    EXECUTE format('CREATE TABLE %s (%s)', part[1], part[2]);
    PERFORM dws.adopt(part[1], string_to_array(replace(part[3], ' ', ''), ','),
                      (SELECT array_agg(trim(both '" ' FROM k)) FROM unnest(string_to_array(part[4], ',')) k));
END $$;

-- Give a new table of the caller the storage options of DWS; reject options that the stand-in does not know.
CREATE FUNCTION dws.adopt(rel_name text, options text[], keys text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    given jsonb := (SELECT jsonb_object_agg(split_part(o, '=', 1), split_part(o, '=', 2)) FROM unnest(options) o);
    ttl integer := coalesce(given ->> 'binlog_ttl', '86400');
BEGIN
    IF (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass(rel_name)) IS DISTINCT FROM session_user THEN
        RAISE EXCEPTION 'must be owner of table %', rel_name USING ERRCODE = '42501';
    ELSIF given - ARRAY['orientation', 'enable_hstore_opt', 'enable_binlog', 'enable_binlog_timestamp', 'binlog_ttl'] <> '{}'
        OR given ->> 'orientation' IS DISTINCT FROM 'column' OR given ->> 'enable_hstore_opt' IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION 'stand-in: storage options %', options USING ERRCODE = '22023';
    ELSIF (given ->> 'enable_binlog' = 'on') IS NOT DISTINCT FROM (given ->> 'enable_binlog_timestamp' = 'on') THEN
        RAISE EXCEPTION 'stand-in: one of enable_binlog and enable_binlog_timestamp' USING ERRCODE = '22023';
    ELSIF EXISTS (SELECT FROM dws.setting WHERE name = 'enable_hstore_binlog_table' AND setting = 'off') THEN
        RAISE EXCEPTION 'stand-in: enable_hstore_binlog_table is off' USING ERRCODE = '0A000';
    END IF;
    PERFORM dws.enable_binlog(rel_name, ttl, coalesce(given ->> 'enable_binlog_timestamp' = 'on', false), keys);
END $$;
