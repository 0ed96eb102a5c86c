-- By which pod a group is known: of the owners of its Workload the first, and from then on the same one while it is one of them. With each
-- event that says who owns the Workload, or which pod was chosen.
CREATE FUNCTION read_models.known_by(known jsonb, owner jsonb, owners jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE WHEN owners ? (known ->> 'uid') THEN known ELSE owner END;
END
$$;
CREATE AGGREGATE read_models.first_pod(owner jsonb, owners jsonb) (SFUNC = read_models.known_by, STYPE = jsonb, PARALLEL = SAFE);
-- The copies of the pods that a group is known by at any time, as they were seen last: few of one group.
CREATE FUNCTION read_models.copies(pods jsonb) RETURNS TABLE (name text, cluster text, uid text, runs boolean)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE ROWS 1 AS $$
BEGIN
    RETURN QUERY SELECT p.value ->> 'name', p.value ->> 'cluster', p.value ->> 'uid', p.value ->> 'runs' = 'true' FROM jsonb_each(pods) p;
END
$$;
REVOKE ALL ON FUNCTION read_models.known_by, read_models.first_pod, read_models.copies FROM PUBLIC;
GRANT EXECUTE ON FUNCTION read_models.first_pod, read_models.copies TO controlplane_reader, controlplane_service;
