-- Run once in the database, as an administrator, after roles.sql:
--
--   psql --file deploy/postgres/rights.sql controlplane
--
-- PostgreSQL lets everybody who may connect make large objects, which could fill the disk. Their functions belong to the superuser, so
-- the migrations, which log in as the owner, cannot take them away.
REVOKE EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea), lo_put(oid, bigint, bytea) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lo_import(text), lo_import(text, oid), lo_export(oid, text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lo_open(oid, integer), lowrite(integer, bytea), lo_unlink(oid) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lo_truncate(integer, integer), lo_truncate64(integer, bigint) FROM PUBLIC;
