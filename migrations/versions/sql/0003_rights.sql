DO $$
DECLARE
    name regprocedure;
BEGIN
    FOR name IN SELECT p.oid FROM pg_proc p
                WHERE p.pronamespace = 'controlplane'::regnamespace AND p.proname IN ('append', 'take_epoch', 'renew_epoch') LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO controlplane_service', name);
    END LOOP;
END
$$;
