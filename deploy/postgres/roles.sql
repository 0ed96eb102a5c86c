-- The roles and the database of one installation. Run once, as an administrator of the server:
--
--     psql -f deploy/postgres/roles.sql postgres
--
-- and then give the two logins their passwords (\password). Who may do what:
--
--   controlplane_owner    owns the database and its schema; `controlplane db upgrade` logs in as this role, nothing else does
--   controlplane_service  the service: may read, and append through one function; may not update or delete anything
--   controlplane_reader   people and dashboards: grant it to their logins
--
-- The migrations grant the last two their rights, and would make them (without a login) if they were missing.
CREATE ROLE controlplane_owner LOGIN;
CREATE ROLE controlplane_service LOGIN;
CREATE ROLE controlplane_reader NOLOGIN;
CREATE DATABASE controlplane OWNER controlplane_owner;
REVOKE ALL ON DATABASE controlplane FROM PUBLIC;
GRANT CONNECT ON DATABASE controlplane TO controlplane_service, controlplane_reader;
