-- What is kept of Workloads that were admitted without being dispatched: their runs, as far as their events are in the database.
INSERT INTO read_models.runs
SELECT v.*
FROM read_models.streams k
CROSS JOIN LATERAL (
    SELECT r.* FROM read_models.live_local_runs r
    WHERE r.log = k.log AND r.namespace = substring(k.stream FROM '/([^/]+)/[^/]+$') AND r.name = substring(k.stream FROM '/([^/]+)$')
    OFFSET 0
) v
WHERE EXISTS (
    SELECT FROM read_models.workload_phases p
    WHERE p.log = k.log AND p.namespace = substring(k.stream FROM '/([^/]+)/[^/]+$') AND p.name = substring(k.stream FROM '/([^/]+)$')
      AND p.phase = 'Admitted' AND p.cluster IS NULL);

-- Of those that waited for a cluster to start their job, or ran there, the times in which the cluster was out of reach.
WITH absence AS MATERIALIZED (SELECT * FROM audit.cluster_absences),
phase AS MATERIALIZED (
    SELECT p.* FROM read_models.workload_phases p
    WHERE p.phase IN ('Admitted', 'Running')
      AND EXISTS (SELECT FROM absence a WHERE a.log = p.log AND a.cluster = p.cluster
                  AND a.since < coalesce(p.until, 'infinity') AND coalesce(a.until, 'infinity') > p.since)
),
part AS (
    SELECT p.log, p.namespace, p.name, p.queue, p.owner, p.cluster, p.phase, p.attempt, x.*,
           lead(x.at, 1, p.until) OVER (PARTITION BY p.log, p.namespace, p.name, p.position ORDER BY x.at, x.position) AS next_at
    FROM phase p
    CROSS JOIN LATERAL (
        SELECT p.since AS at, p.position, false AS lost, '' AS reason, '' AS message
        UNION ALL
        SELECT greatest(a.since, p.since), greatest(a.position, p.position), true, a.reason, coalesce(a.message, '') FROM absence a
        WHERE a.log = p.log AND a.cluster = p.cluster AND a.since < coalesce(p.until, 'infinity') AND coalesce(a.until, 'infinity') > p.since
        UNION ALL
        SELECT a.until, a.last_position, false, '', '' FROM absence a
        WHERE a.log = p.log AND a.cluster = p.cluster AND a.until > p.since AND a.until < coalesce(p.until, 'infinity')
    ) x
), replaced AS (
    DELETE FROM read_models.pending_reasons k
    USING phase p
    WHERE p.phase = 'Admitted' AND k.log = p.log AND k.namespace = p.namespace AND k.name = p.name AND k.cluster = '@management'
      AND k.position = p.position
)
INSERT INTO read_models.pending_reasons
SELECT log, namespace, name, queue, owner, '@management', attempt, at, next_at,
       cluster || CASE WHEN lost THEN ' to come back' ELSE ' to start its job' END, reason, message, position
FROM part
WHERE (lost OR phase = 'Admitted') AND at IS DISTINCT FROM next_at;
