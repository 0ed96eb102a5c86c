-- Parts of views of 0009, each after a line that says `next`. Of all: by which pod a group is known.
-- next --
read_models.first_pod(@.d -> 'owner', @.d -> 'owners') FILTER (WHERE @.type IN ('WorkloadObserved', 'GroupPodChosen'))
                                   OVER (ORDER BY @.position) AS known
-- next --
, jsonb_agg(@.d -> 'owner' -> 'name') FILTER (WHERE @.type IN ('WorkloadObserved', 'GroupPodChosen')
                                   AND @.d -> 'owner' ->> 'kind' = 'Pod') OVER () AS firsts
-- next --
SELECT b.*, coalesce(nullif(b.face ->> 'cluster', ''), nullif(b.winner, ''), nullif(b.named, '')) AS here,
                       -- whether the copy that it has there runs, whenever that was seen
                       jsonb_object_agg(concat_ws('/', b.cluster, b.pod), b.runs)
                           FILTER (WHERE b.type LIKE 'RemoteJob%' AND coalesce(b.firsts ? b.pod, true)) OVER (ORDER BY b.position)
                           ->> concat_ws('/', coalesce(nullif(b.face ->> 'cluster', ''), nullif(b.winner, ''), nullif(b.named, '')),
                                         CASE WHEN b.known ->> 'kind' = 'Pod' THEN b.known ->> 'name' END) = 'true' AS job_runs
                FROM (

-- next --
SELECT d.position, d.at, x.type, x.cluster, x.job_uid, x.job_name, d.life, x.runs, x.finished, d.evicted, d.removal, d.finish, d.attempt, d.queue,
                       d.owner, d.requests, d.template, d.replaced, d.elastic, d.replaced_at, d.given_up, d.given_up_ever
                FROM (SELECT d.*, jsonb_object_agg(concat_ws('/', d.cluster, d.job_name), jsonb_build_object(
                                 'cluster', d.cluster, 'name', d.job_name, 'uid', d.job_uid, 'runs', d.runs))
                                 FILTER (WHERE d.pod AND d.firsts ? d.job_name) OVER (ORDER BY d.position) AS pods,
                             lag(d.first) OVER (ORDER BY d.position) AS first_before
                FROM (
-- next --
) d) d
                CROSS JOIN LATERAL (
                    SELECT d.type, d.cluster, d.job_uid, d.job_name, d.runs, d.finished WHERE d.is_job
                    UNION ALL
                    -- another pod stands for the group from now on, which may have run before
                    SELECT CASE WHEN p.name = d.first THEN 'RemoteJobObserved' ELSE 'RemoteJobGone' END, p.cluster, p.uid, p.name,
                           p.name = d.first AND p.runs, false
                    FROM read_models.copies(d.pods) p WHERE d.first <> d.first_before
                ) x) c
