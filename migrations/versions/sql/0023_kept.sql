-- Of what is kept: a Workload in whose history an end is not told any more is forgotten, and told of its events. They are first looked for by
-- the text alone: of a UID that stands first in it, which is that of the object, nothing has to be parsed.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT k.log, k.stream, substring(k.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(k.stream FROM '/([^/]+)$') AS name
        FROM read_models.streams k
        CROSS JOIN LATERAL (
            SELECT bool_or(x.type LIKE '%Gone' AND x.before <> x.uid) AS perhaps
            FROM (
                SELECT u.type, u.uid, lag(u.uid) OVER (PARTITION BY u.object, u.cluster ORDER BY u.version) AS before
                FROM (
                    SELECT e.version, e.type, e.cluster, regexp_replace(e.type, '(Observed|Gone)$', '') AS object,
                           substring(e.data::text FROM '"uid" ?: ?"([^"]*)"') AS uid
                    FROM controlplane.events e
                    WHERE e.log = k.log AND e.stream = k.stream AND e.type IN (
                        'WorkloadObserved', 'WorkloadGone', 'CloneObserved', 'CloneGone', 'RemoteJobObserved', 'RemoteJobGone')
                ) u
            ) x
        ) p
        WHERE p.perhaps
    LOOP
        CONTINUE WHEN (SELECT count(*) FROM controlplane.events e WHERE e.log = one.log AND e.stream = one.stream)
                    = (SELECT count(*) FROM read_models.told t WHERE t.log = one.log AND t.stream = one.stream);
        DELETE FROM read_models.streams k WHERE k.log = one.log AND k.stream = one.stream;
        DELETE FROM read_models.workload_phases k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
        DELETE FROM read_models.runs k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
        DELETE FROM read_models.placements k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
        DELETE FROM read_models.pending_reasons k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
        DELETE FROM read_models.effects k WHERE k.log = one.log AND k.namespace = one.namespace AND k.name = one.name;
    END LOOP;
END
$$;

-- What began to wait for a cluster in the midst of an absence waited for the reason for which that began.
UPDATE read_models.pending_reasons k SET reason = n.reason, message = n.message
FROM (
    SELECT w.ctid AS place, b.reason, b.message
    FROM read_models.pending_reasons w
    JOIN read_models.workload_phases p ON p.log = w.log AND p.namespace = w.namespace AND p.name = w.name AND p.position = w.position
    CROSS JOIN LATERAL (
        @LOST@
    ) b
    WHERE w.cluster = '@management' AND w.waits_for = p.cluster || ' to come back'
) n
WHERE k.ctid = n.place AND (k.reason, k.message) IS DISTINCT FROM (n.reason, n.message);
