-- Of what is kept: a Workload in whose history an end is not told any more is forgotten, and told of its events. What waited for a cluster
-- waited for the reason for which that was lost.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT k.log, k.stream, substring(k.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(k.stream FROM '/([^/]+)$') AS name
        FROM read_models.streams k
        WHERE EXISTS (SELECT FROM controlplane.events e
                      WHERE e.log = k.log AND e.stream = k.stream AND e.type IN ('WorkloadGone', 'CloneGone', 'RemoteJobGone')
                        AND NOT EXISTS (SELECT FROM read_models.told t
                                        WHERE t.log = e.log AND t.stream = e.stream AND t.version = e.version))
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
UPDATE read_models.pending_reasons k SET reason = a.reason, message = coalesce(a.message, '')
FROM audit.cluster_absences a
WHERE k.waits_for = a.cluster || ' to come back' AND k.log = a.log AND k.position > a.position
  AND k.position < coalesce(a.last_position, 9223372036854775807)
  AND (k.reason, k.message) IS DISTINCT FROM (a.reason, coalesce(a.message, ''));
