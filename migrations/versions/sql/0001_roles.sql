-- Two group roles without a login: an administrator grants them to the users that the service and the people log in with.
-- Roles are of the whole server: another database of it may have made them already.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['controlplane_service', 'controlplane_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- made by another database's migration at this moment
            END;
        END IF;
    END LOOP;
END
$$;

REVOKE ALL ON FUNCTION controlplane.append FROM PUBLIC;
REVOKE ALL ON FUNCTION controlplane.take_epoch FROM PUBLIC;
REVOKE ALL ON FUNCTION controlplane.renew_epoch FROM PUBLIC;
GRANT USAGE ON SCHEMA controlplane TO controlplane_service;
GRANT SELECT ON ALL TABLES IN SCHEMA controlplane TO controlplane_service;
GRANT EXECUTE ON FUNCTION controlplane.append, controlplane.take_epoch, controlplane.renew_epoch TO controlplane_service;
