-- STAND-IN for the binlog functions of DWS. This file provides the information of DWS's catalogs: the distribution of
-- tables, settings that only DWS has, and its version. A test or a demo sets the values; by default, the version
-- identifies the server as a stand-in.

CREATE TABLE dws.setting (name text PRIMARY KEY, setting text NOT NULL);
CREATE TABLE dws.locator (rel oid PRIMARY KEY, kind "char" NOT NULL);
GRANT SELECT ON dws.setting TO PUBLIC;
CREATE TABLE dws.redaction (object_oid oid, policy_name name, enable boolean NOT NULL DEFAULT true);

-- The reader is generated per table; a server has the function even if no table has a binlog.
CREATE FUNCTION dws.pgxc_get_binlog_changes(text, integer, bigint, bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dws.table_of($1), dws.not_this_table($1);
END $$;

SET allow_system_table_mods = on;

CREATE VIEW pg_catalog.pgxc_class AS
SELECT c.oid AS pcrelid, coalesce(l.kind, 'H'::"char") AS pclocatortype, 'group_version1'::name AS pgroup,
    (SELECT string_agg((20000 + n.ord)::text, ' ' ORDER BY n.ord) FROM dws.node n)::oidvector AS nodeoids
FROM pg_class c LEFT JOIN dws.locator l ON l.rel = c.oid
WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384;
GRANT SELECT ON pg_catalog.pgxc_class TO PUBLIC;

-- A policy is only listed here; it masks nothing.
CREATE VIEW pg_catalog.pg_redaction_policy AS
SELECT object_oid, policy_name, enable, NULL::text AS expression, NULL::text AS policy_description, false AS inherited
FROM dws.redaction;
GRANT SELECT ON pg_catalog.pg_redaction_policy TO PUBLIC;

CREATE OR REPLACE VIEW pg_catalog.pg_settings AS
SELECT * FROM pg_catalog.pg_show_all_settings()
UNION ALL
SELECT s.name, s.setting, NULL, 'stand-in', 'set by demo', NULL, 'sighup', 'string', 'override', NULL, NULL,
    NULL::text[], NULL, NULL, NULL, NULL, false
FROM dws.setting s WHERE s.name <> 'version';

-- A built-in function is called by its number, whatever its body contains, so it is renamed to free its name.
ALTER FUNCTION pg_catalog.version() RENAME TO postgresql_version;
CREATE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE AS $$
SELECT coalesce((SELECT s.setting FROM dws.setting s WHERE s.name = 'version'), postgresql_version()) $$;

RESET allow_system_table_mods;
