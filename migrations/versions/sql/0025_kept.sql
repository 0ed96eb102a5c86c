-- What is kept of Workloads of groups of pods and of elastic jobs is forgotten, and told of their events, as far as those are in the database: a
-- stream leaves it as a whole.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT k.log, k.stream, substring(k.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(k.stream FROM '/([^/]+)$') AS name
        FROM read_models.streams k
        WHERE EXISTS (
            SELECT FROM controlplane.events e
            CROSS JOIN LATERAL (SELECT replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d) o
            WHERE e.log = k.log AND e.stream = k.stream AND e.type = 'WorkloadObserved'
              AND (o.d ->> 'elastic' = 'true' OR o.d -> 'owner' ->> 'kind' = 'Pod'))
    LOOP
        DELETE FROM read_models.streams k WHERE k.log = one.log AND k.stream = one.stream;
        DELETE FROM read_models.workload_phases k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
        DELETE FROM read_models.runs k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
        DELETE FROM read_models.placements k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
        DELETE FROM read_models.pending_reasons k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
        DELETE FROM read_models.effects k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
    END LOOP;
END
$$;
