-- STAND-IN for the binlog functions of DWS. This file runs CREATE TABLE, ALTER TABLE ... SET and SHOW in the syntax of
-- DWS. PostgreSQL's parser rejects them, so a statement is an argument, without its semicolon: SELECT dws.ddl('CREATE
-- TABLE s.t (...) WITH (...) DISTRIBUTE BY HASH (k)'); `Warehouse.run` splits a text into its statements. The clauses
-- are parsed as documented by the vendor; the error texts are invented. Tables are created with the caller's own rights.

-- Return the value of SHOW; NULL for other statements.
CREATE FUNCTION dws.ddl(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    part text[] := regexp_match($1, '^\s*CREATE TABLE ([^(]+)\((.+)\)\s*WITH\s*\(([^()]*)\)(?:\s*DISTRIBUTE BY HASH\s*'
                                    '\(([^()]*)\))?\s*$', 'i');
    altered text[] := regexp_match($1, '^\s*ALTER TABLE (\S+)\s+SET\s*\(([^()]*)\)\s*$', 'i');
    shown text := (regexp_match($1, '^\s*SHOW (\w+)\s*$', 'i'))[1];
BEGIN
    IF shown IS NOT NULL THEN
        -- DWS: a binlog table needs enable_hstore_binlog_table, so a stand-in that has such tables has the setting
        RETURN coalesce((SELECT s.setting FROM dws.setting s WHERE s.name = shown),
                        CASE shown WHEN 'enable_hstore_binlog_table' THEN 'on' ELSE current_setting(shown) END);
    ELSIF altered IS NOT NULL THEN
        PERFORM dws.adopt(altered[1], regexp_split_to_array(altered[2], '\s*,\s*'), NULL);
    ELSIF part IS NOT NULL THEN
        EXECUTE format('CREATE TABLE %s (%s)', part[1], part[2]);
        PERFORM dws.adopt(btrim(part[1], E' \n\t'), regexp_split_to_array(part[3], '\s*,\s*'),
                          (SELECT array_agg(trim(both '" ' FROM k)) FROM unnest(string_to_array(part[4], ',')) k));
    ELSE
        RAISE EXCEPTION 'stand-in: not CREATE TABLE ... WITH (...), ALTER TABLE ... SET (...) or SHOW'
            USING ERRCODE = '42601';
    END IF;
    RETURN NULL;
END $$;

-- Give a table of the caller the storage options of DWS; reject options that the stand-in does not know.
CREATE FUNCTION dws.adopt(rel_name text, options text[], keys text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    rel oid := to_regclass(rel_name);
    given jsonb := (
        SELECT jsonb_object_agg(pair[1], CASE pair[2] WHEN 'true' THEN 'on' WHEN 'false' THEN 'off' ELSE pair[2] END)
        FROM (SELECT regexp_match(lower(o), '^\s*(\w+)\s*=\s*(\w+)\s*$') AS pair
              FROM unnest(coalesce((SELECT reloptions FROM pg_class WHERE oid = rel), '{}') || options) o) p);
    recorded text[] := ARRAY(SELECT k FROM jsonb_each_text(given) g(k, v)
                             WHERE k IN ('enable_binlog', 'enable_binlog_timestamp') AND v = 'on');
    stored jsonb := given - ARRAY['enable_binlog', 'enable_binlog_timestamp', 'binlog_ttl'];
BEGIN
    IF (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = rel) IS DISTINCT FROM session_user THEN
        RAISE EXCEPTION 'must be owner of table %', rel_name USING ERRCODE = '42501';
    ELSIF stored - ARRAY['orientation', 'enable_hstore', 'enable_hstore_opt'] <> '{}'
        OR given ->> 'orientation' IS DISTINCT FROM 'column'
        OR 'on' NOT IN (coalesce(given ->> 'enable_hstore', ''), coalesce(given ->> 'enable_hstore_opt', '')) THEN
        RAISE EXCEPTION 'stand-in: storage options %', options USING ERRCODE = '22023';
    ELSIF cardinality(recorded) > 1 THEN
        RAISE EXCEPTION 'stand-in: one of enable_binlog and enable_binlog_timestamp' USING ERRCODE = '22023';
    END IF;
    UPDATE pg_class SET reloptions = (SELECT array_agg(k || '=' || v) FROM jsonb_each_text(stored) o(k, v)) WHERE oid = rel;
    IF recorded = '{}' THEN
        RETURN;
    ELSIF EXISTS (SELECT FROM dws.setting WHERE name = 'enable_hstore_binlog_table' AND setting = 'off') THEN
        RAISE EXCEPTION 'stand-in: enable_hstore_binlog_table is off' USING ERRCODE = '0A000';
    END IF;
    PERFORM dws.enable_binlog(rel_name, coalesce(given ->> 'binlog_ttl', '86400')::integer,
                              recorded[1] = 'enable_binlog_timestamp', keys);
END $$;
