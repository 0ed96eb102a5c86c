-- What PostgreSQL lets everybody do in a database, and nobody needs here: temporary tables and large objects fill its disk.
-- TEMPORARY is the database's owner's to revoke; the functions of large objects are the superuser's. Who may not, leaves them as they
-- are: deploy/postgres/rights.sql is for the administrator.
DO $$
DECLARE
    one regprocedure;
BEGIN
    BEGIN
        EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    EXCEPTION WHEN insufficient_privilege THEN
        RAISE NOTICE 'this role may not revoke TEMPORARY on the database';
    END;
    FOR one IN SELECT oid FROM pg_proc
               WHERE pronamespace = 'pg_catalog'::regnamespace
               AND proname IN ('lo_creat', 'lo_create', 'lo_export', 'lo_from_bytea', 'lo_import', 'lo_open', 'lo_put',
                               'lo_truncate', 'lo_truncate64', 'lo_unlink', 'lowrite') LOOP
        BEGIN
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one);
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE NOTICE 'this role may not revoke EXECUTE on %', one;
        END;
    END LOOP;
END
$$;
