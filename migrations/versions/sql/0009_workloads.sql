-- What became of Workloads: phases, runs, waiting, usage, writes. As in 0002, a view starts from `streams` and goes to `events` by (log,
-- stream, version), so that a namespace and a name are answered from indexes. `OFFSET 0` keeps the text of an event from being parsed once
-- for each field that is read. What is seen of a job ends when something else is seen of it: `controlplane/audit/runs_seen.py` has the same rule.

-- A quantity of Kubernetes as a number: 500m, 2Gi, 1e3. Null for what is none.
CREATE FUNCTION audit.quantity(quantity text) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN m IS NOT NULL THEN m[1]::numeric * CASE m[2]
        WHEN 'n' THEN 1e-9 WHEN 'u' THEN 1e-6 WHEN 'm' THEN 1e-3 WHEN 'k' THEN 1e3 WHEN 'M' THEN 1e6 WHEN 'G' THEN 1e9
        WHEN 'T' THEN 1e12 WHEN 'P' THEN 1e15 WHEN 'E' THEN 1e18 WHEN 'Ki' THEN 1024 WHEN 'Mi' THEN 1048576
        WHEN 'Gi' THEN 1073741824 WHEN 'Ti' THEN 1099511627776 WHEN 'Pi' THEN 1125899906842624
        WHEN 'Ei' THEN 1152921504606846976 ELSE 1 END END
    FROM regexp_match(quantity, '^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)([numkMGTPE]|[KMGTPE]i)?$') AS m
$$;

CREATE VIEW audit.workload_phases AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       p.queue, p.owner, p.cluster, p.attempt, p.since, p.until, p.phase, p.reason, p.message, p.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT n.queue, n.owner, n.cluster, n.attempt, n.at AS since, lead(n.at) OVER (ORDER BY n.position) AS until, n.phase, n.reason,
           n.message, n.position
    FROM (
        SELECT g.*, (g.phase, g.cluster, g.attempt, g.reason, g.message, g.uid) IS DISTINCT FROM
                    lag((g.phase, g.cluster, g.attempt, g.reason, g.message, g.uid)) OVER (ORDER BY g.position) AS begins
        FROM (
            SELECT f.position, f.at, f.attempt, f.face ->> 'queue' AS queue, f.face ->> 'owner' AS owner, f.face ->> 'uid' AS uid, w.phase,
                   CASE WHEN w.phase IN ('Admitted', 'Running', 'Chosen', 'Finished', 'Retry', 'Rejected', 'Evicted', 'Deleting')
                       THEN f.here END AS cluster,
                   CASE WHEN w.phase IN ('Chosen', 'Nominated', 'Admitted', 'Running') THEN '' ELSE coalesce(f.face ->> 'reason', '') END AS reason,
                   CASE WHEN w.phase = 'Nominated' THEN 'offered to ' || coalesce(f.offered, '') || coalesce('; refused by ' || f.refusals, '')
                        WHEN w.phase IN ('Chosen', 'Admitted', 'Running') THEN '' ELSE coalesce(f.face ->> 'message', '') END AS message
            FROM (
                SELECT c.*, first_value(c.runs) OVER (PARTITION BY c.jobs ORDER BY c.position) AS job_runs,
                       first_value(c.cluster) OVER (PARTITION BY c.jobs ORDER BY c.position) AS job_cluster
                FROM (
                    SELECT b.*, coalesce(nullif(b.face ->> 'cluster', ''), nullif(b.winner, '')) AS here,
                           count(*) FILTER (WHERE b.type LIKE 'RemoteJob%'
                               AND b.cluster = coalesce(nullif(b.face ->> 'cluster', ''), nullif(b.winner, '')))
                               OVER (ORDER BY b.position) AS jobs
                    FROM (
                        SELECT a.position, a.at, a.type, a.cluster, a.runs,
                               first_value(a.face) OVER (PARTITION BY a.faces ORDER BY a.position) AS face,
                               first_value(a.chosen) OVER (PARTITION BY a.choices ORDER BY a.position) AS winner,
                               first_value(a.offer) OVER (PARTITION BY a.offers ORDER BY a.position) AS offered,
                               string_agg(a.refusal, ', ') OVER (PARTITION BY a.offers ORDER BY a.position) AS refusals,
                               coalesce(max(a.tried) OVER (PARTITION BY a.life ORDER BY a.position), 0) AS attempt
                        FROM (
                            SELECT x.*, count(x.face) OVER w AS faces, count(x.chosen) OVER w AS choices, count(x.offer) OVER w AS offers,
                                   count(*) FILTER (WHERE x.type = 'WorkloadGone')
                                       OVER (ORDER BY x.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS life
                            FROM (
                                SELECT e.position, e.at, e.type, e.cluster, k.face, e.d,
                                       CASE WHEN e.type IN ('NominationDecided', 'AttemptBegun') THEN (e.d ->> 'attempt')::int END AS tried,
                                       CASE WHEN e.type = 'ClusterRefused' THEN e.cluster || ' (' || e.reason || ')' END AS refusal,
                                       CASE WHEN e.type = 'WinnerChosen' THEN e.cluster
                                            WHEN e.type = 'WinnerReleased' OR e.type = 'ClusterRefused' AND e.reason IN ('JobNameTaken', 'JobRefused')
                                                OR k.face ->> 'ends' = 'true' THEN '' END AS chosen,
                                       CASE WHEN e.type IN ('NominationDecided', 'AttemptBegun') THEN
                                                (SELECT string_agg(c, ', ') FROM jsonb_array_elements_text(e.d -> 'clusters') c)
                                            WHEN k.face ->> 'ends' = 'true' THEN '' END AS offer,
                                       e.type = 'RemoteJobObserved' AND coalesce(e.d ->> 'suspended', 'false') = 'false' AS runs
                                FROM (
                                    SELECT e.position, e.recorded_at AS at, e.type, e.cluster, e.reason,
                                           replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                                    FROM controlplane.events e
                                    WHERE e.log = s.log AND e.stream = s.stream
                                      AND e.type IN ('WorkloadObserved', 'WorkloadGone', 'NominationDecided', 'AttemptBegun', 'WinnerChosen',
                                                     'WinnerReleased', 'ClusterRefused', 'RemoteJobObserved', 'RemoteJobGone')
                                    OFFSET 0
                                ) e
                                LEFT JOIN LATERAL (
                                    SELECT CASE WHEN e.type = 'WorkloadGone' THEN
                                        jsonb_build_object('phase', 'Deleted', 'ends', true, 'uid', e.d ->> 'uid')
                                    ELSE jsonb_build_object(
                                        'uid', e.d ->> 'uid', 'cluster', e.d ->> 'cluster_name', 'queue', e.d ->> 'queue_name',
                                        'owner', (e.d -> 'owner' ->> 'kind') || '/' || (e.d -> 'owner' ->> 'name'),
                                        'ends', q.reserved IS NULL OR q.evicted IS NOT NULL,
                                        'phase', q.phase,
                                        'reason', CASE q.phase WHEN 'Finished' THEN q.finished ->> 'reason' WHEN 'Evicted' THEN q.evicted ->> 'reason'
                                            WHEN 'Pending' THEN q.pending ->> 'reason' WHEN 'Reserved' THEN q.checking ->> 'name'
                                            WHEN 'Retry' THEN q.retry ->> 'name' WHEN 'Rejected' THEN q.rejected ->> 'name' END,
                                        'message', CASE q.phase WHEN 'Finished' THEN q.finished ->> 'message' WHEN 'Evicted' THEN q.evicted ->> 'message'
                                            WHEN 'Pending' THEN q.pending ->> 'message' WHEN 'Reserved' THEN q.checking ->> 'message'
                                            WHEN 'Retry' THEN q.retry ->> 'message' WHEN 'Rejected' THEN q.rejected ->> 'message' END)
                                    END AS face
                                    FROM (
                                        SELECT h.*, CASE WHEN h.finished IS NOT NULL THEN 'Finished'
                                                         WHEN e.d ->> 'deleting' = 'true' THEN 'Deleting'
                                                         WHEN h.evicted IS NOT NULL AND h.reserved IS NOT NULL THEN 'Evicted'
                                                         WHEN e.d ->> 'active' = 'false' THEN 'Inactive'
                                                         WHEN h.reserved IS NULL THEN 'Pending'
                                                         WHEN h.rejected IS NOT NULL THEN 'Rejected'
                                                         WHEN h.retry IS NOT NULL THEN 'Retry'
                                                         WHEN h.admitted OR e.d ->> 'cluster_name' <> '' THEN 'Admitted'
                                                         ELSE 'Reserved' END AS phase
                                        FROM (
                                            SELECT jsonb_path_query_first(e.d, '$.conditions[*] ? (@.type == "Finished" && @.status == "True")') AS finished,
                                                   jsonb_path_query_first(e.d, '$.conditions[*] ? (@.type == "Evicted" && @.status == "True")') AS evicted,
                                                   jsonb_path_query_first(e.d, '$.conditions[*] ? (@.type == "QuotaReserved" && @.status == "True")') AS reserved,
                                                   jsonb_path_query_first(e.d, '$.conditions[*] ? (@.type == "QuotaReserved" && @.status != "True")') AS pending,
                                                   jsonb_path_query_first(e.d, '$.checks[*] ? (@.state == "Rejected")') AS rejected,
                                                   jsonb_path_query_first(e.d, '$.checks[*] ? (@.state == "Retry")') AS retry,
                                                   jsonb_path_query_first(e.d, '$.checks[*] ? (@.state != "Ready")') AS checking,
                                                   e.d @? '$.conditions[*] ? (@.type == "Admitted" && @.status == "True")' AS admitted
                                        ) h
                                    ) q
                                    WHERE e.type IN ('WorkloadObserved', 'WorkloadGone')
                                ) k ON true
                                OFFSET 0
                            ) x
                            WINDOW w AS (ORDER BY x.position)
                        ) a
                    ) b
                ) c
            ) f
            CROSS JOIN LATERAL (
                SELECT CASE WHEN f.face ->> 'phase' = 'Admitted' THEN
                                CASE WHEN f.job_runs AND f.job_cluster = f.here THEN 'Running' ELSE 'Admitted' END
                            WHEN f.face ->> 'phase' = 'Reserved' THEN
                                CASE WHEN f.winner <> '' THEN 'Chosen' WHEN f.offered <> '' THEN 'Nominated' ELSE 'Reserved' END
                            ELSE f.face ->> 'phase' END AS phase
            ) w
            WHERE f.face IS NOT NULL
        ) g
    ) n
    WHERE n.begins
) p
WHERE s.stream LIKE 'workload/%';

-- The runs of a job's copies. From the inside: the events; for each, the Workload and the copy as they were last seen, and the last time
-- that a lost cluster was given up; then of each job's copy the moments at which it began or ceased to run, in pairs; then whether the
-- cluster was out of view when it ended. What a list shows is recorded before the cluster counts as connected again, so what ends before
-- the next ClusterConnected ended out of view.
CREATE VIEW audit.runs AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       r.queue, r.owner, r.cluster, r.attempt, r.since, r.until, r.outcome, r.reason, r.overlapped, r.overlapped_unseen, r.twice,
       r.unseen_since, r.unseen_until, r.given_up_at,
       (SELECT jsonb_object_agg(q.resource, q.amount) FROM (
            SELECT one.resource, sum(one.amount) AS amount FROM (
                SELECT x.key AS resource, audit.quantity(x.value) AS amount
                FROM jsonb_each(r.requests) pod_set CROSS JOIN LATERAL jsonb_each_text(pod_set.value) x
                UNION ALL
                SELECT x.key, audit.quantity(x.value) * coalesce((pod_set.value ->> 'count')::numeric, 1)
                FROM controlplane.bodies b
                CROSS JOIN LATERAL jsonb_path_query(replace(b.body::text, '\u0000', '\ufffd')::jsonb, '$.spec.podSets[*]') AS pod_set (value)
                CROSS JOIN LATERAL jsonb_path_query(pod_set.value, '$.template.spec.containers[*].resources') AS wants (value)
                CROSS JOIN LATERAL jsonb_each_text(
                    CASE WHEN jsonb_typeof(wants.value -> 'limits') = 'object' THEN wants.value -> 'limits' ELSE '{}' END
                    || CASE WHEN jsonb_typeof(wants.value -> 'requests') = 'object' THEN wants.value -> 'requests' ELSE '{}' END) x
                WHERE r.requests IS NULL AND b.hash = CASE WHEN r.template ~ '^[0-9a-f]{64}$' THEN decode(r.template, 'hex') END
            ) one GROUP BY one.resource) q) AS resources,
       r.job_uid, r.position, r.last_position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    WITH seen AS MATERIALIZED (
        SELECT j.cluster, j.job_uid, j.queue, j.owner, j.attempt, j.requests, j.template, j.position, j.at AS since, j.next_position AS last_position,
               j.next_at AS ended_at, away.at AS unseen_since, g.at AS given_up_at,
               g.position > away.position AS given_up,
               CASE WHEN j.next_at IS NULL THEN NULL
                    WHEN j.next_finished THEN coalesce(j.finish, 'Finished')
                    WHEN j.next_evicted IS NOT NULL THEN 'Evicted'
                    WHEN j.next_type = 'RemoteJobObserved' THEN 'Suspended'
                    ELSE 'Removed' END AS outcome,
               CASE WHEN g.position > away.position THEN away.reason
                    WHEN j.next_at IS NULL OR j.next_finished THEN ''
                    ELSE coalesce(j.next_evicted, j.next_removal, '') END AS reason
        FROM (
            SELECT t.*, coalesce(lead(t.position) OVER w, t.replaced) AS next_position, coalesce(lead(t.at) OVER w, t.replaced_at) AS next_at,
                   lead(t.type) OVER w AS next_type, coalesce(lead(t.finished) OVER w, t.replaced IS NOT NULL) AS next_finished, lead(t.evicted) OVER w AS next_evicted, lead(t.removal) OVER w AS next_removal,
                   coalesce(lead(t.given_up) OVER w, t.given_up_ever) AS next_given_up
            FROM (
                SELECT c.*, c.runs IS DISTINCT FROM coalesce(lag(c.runs) OVER (PARTITION BY c.cluster, c.job_uid ORDER BY c.position), false) AS turns
                FROM (
                    SELECT b.position, b.at, b.type, b.cluster, b.d ->> 'uid' AS job_uid, b.life,
                           b.type = 'RemoteJobObserved' AND coalesce(b.d ->> 'finished', 'false') = 'false'
                               AND NOT (coalesce(b.d ->> 'suspended', 'false') = 'true' AND coalesce(b.d ->> 'inactive', 'true') = 'true') AS runs,
                           b.d ->> 'finished' = 'true' AS finished,
                           b.type IN ('RemoteJobObserved', 'RemoteJobGone') AND NOT coalesce(b.d ->> 'kind' = 'pods' AND b.d ->> 'name' <>
                               first_value(b.d -> 'owner' ->> 'name') OVER (PARTITION BY b.faces ORDER BY b.position), false) AS is_job,
                           coalesce(first_value(b.evicted) OVER (PARTITION BY b.cluster, b.copies ORDER BY b.position),
                                    first_value(b.evicted) OVER (PARTITION BY b.faces ORDER BY b.position)) AS evicted,
                           first_value(b.removal) OVER (PARTITION BY b.cluster, b.removals ORDER BY b.position) AS removal,
                           coalesce(max(b.finish) OVER (PARTITION BY b.life, b.cluster), max(b.finish) OVER (PARTITION BY b.life)) AS finish,
                           coalesce(max(b.tried) OVER (PARTITION BY b.life ORDER BY b.position), 0) AS attempt,
                           first_value(b.d ->> 'queue_name') OVER (PARTITION BY b.faces ORDER BY b.position) AS queue,
                           first_value((b.d -> 'owner' ->> 'kind') || '/' || (b.d -> 'owner' ->> 'name'))
                               OVER (PARTITION BY b.faces ORDER BY b.position) AS owner,
                           first_value(b.d -> 'requests') OVER (PARTITION BY b.faces ORDER BY b.position) AS requests,
                           first_value(coalesce(b.d -> 'kept' ->> 'template', b.d ->> 'template'))
                               OVER (PARTITION BY b.faces ORDER BY b.position) AS template,
                           -- a slice of an elastic job: what is seen of its job from then on is on the stream of the next slice
                           min(CASE WHEN b.finish = 'WorkloadSliceReplaced' THEN b.position END) OVER (PARTITION BY b.life) AS replaced,
                           min(CASE WHEN b.finish = 'WorkloadSliceReplaced' THEN b.at END) OVER (PARTITION BY b.life) AS replaced_at,
                           max(b.giving_up) OVER (ORDER BY b.position) AS given_up, max(b.giving_up) OVER () AS given_up_ever
                    FROM (
                        SELECT a.*, count(*) FILTER (WHERE a.type = 'WorkloadObserved') OVER (ORDER BY a.position) AS faces,
                               count(*) FILTER (WHERE a.type = 'WorkloadGone')
                                   OVER (ORDER BY a.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS life,
                               count(*) FILTER (WHERE a.type = 'CloneObserved') OVER (PARTITION BY a.cluster ORDER BY a.position) AS copies,
                               count(a.removal) OVER (PARTITION BY a.cluster ORDER BY a.position) AS removals
                        FROM (
                            SELECT e.*,
                                   CASE WHEN e.type IN ('NominationDecided', 'AttemptBegun') THEN (e.d ->> 'attempt')::int END AS tried,
                                   CASE WHEN e.type = 'RemovalDecided' THEN e.why END AS removal,
                                   CASE WHEN e.why IN ('RemoteLost', 'LostBeforeReady') AND e.type IN ('CheckStateDecided', 'WinnerReleased')
                                       THEN e.position END AS giving_up,
                                   CASE WHEN e.type IN ('WorkloadObserved', 'CloneObserved') THEN jsonb_path_query_first(
                                       e.d, '$.conditions[*] ? (@.type == "Evicted" && @.status == "True").reason') #>> '{}' END AS evicted,
                                   CASE WHEN e.type IN ('WorkloadObserved', 'CloneObserved') THEN jsonb_path_query_first(
                                       e.d, '$.conditions[*] ? (@.type == "Finished" && @.status == "True").reason') #>> '{}' END AS finish
                            FROM (
                                SELECT e.position, e.recorded_at AS at, e.type, e.cluster, e.reason AS why,
                                       replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                                FROM controlplane.events e
                                WHERE e.log = s.log AND e.stream = s.stream
                                  AND e.type IN ('WorkloadObserved', 'WorkloadGone', 'NominationDecided', 'AttemptBegun', 'WinnerReleased',
                                                 'CheckStateDecided', 'CloneObserved', 'RemoteJobObserved', 'RemoteJobGone', 'RemovalDecided')
                                OFFSET 0
                            ) e
                            OFFSET 0
                        ) a
                    ) b
                ) c
                WHERE c.is_job
            ) t
            WHERE t.turns
            WINDOW w AS (PARTITION BY t.cluster, t.job_uid ORDER BY t.position)
        ) j
        LEFT JOIN LATERAL (
            SELECT l.position, l.recorded_at AS at, l.reason
            FROM controlplane.events l
            WHERE l.log = s.log AND l.stream = 'cluster/' || j.cluster
              AND l.type IN ('ClusterLost', 'ClusterConnectFailed', 'ClusterDisconnected')
              AND l.position > j.position AND l.position < coalesce(j.next_position, 9223372036854775807)
              AND l.position > (SELECT max(c.position) FROM controlplane.events c
                                WHERE c.log = s.log AND c.stream = 'cluster/' || j.cluster AND c.type = 'ClusterConnected'
                                  AND c.position < coalesce(j.next_position, 9223372036854775807))
            ORDER BY l.position LIMIT 1
        ) away ON true
        LEFT JOIN LATERAL (
            SELECT e.position, e.recorded_at AS at FROM controlplane.events e
            WHERE e.log = s.log AND e.position = j.next_given_up AND e.position > j.position
        ) g ON true
        WHERE j.runs
    ), run AS MATERIALIZED (
        SELECT n.*, CASE WHEN n.given_up THEN n.unseen_since ELSE n.ended_at END AS until, coalesce(n.unseen_since, n.ended_at) AS seen_until
        FROM seen n
    )
    SELECT n.queue, n.owner, n.cluster, n.attempt, n.since, n.until, CASE WHEN n.given_up THEN 'Lost' ELSE n.outcome END AS outcome, n.reason,
           coalesce(o.overlapped, false) AS overlapped, coalesce(o.overlapped_unseen, false) AS overlapped_unseen, coalesce(o.twice, interval '0') AS twice,
           n.unseen_since, CASE WHEN n.unseen_since IS NOT NULL THEN n.ended_at END AS unseen_until, n.given_up_at,
           n.requests, n.template, n.job_uid, n.position, n.last_position
    FROM run n
    LEFT JOIN LATERAL (
        SELECT bool_or(o.since < coalesce(n.seen_until, 'infinity') AND n.since < coalesce(o.seen_until, 'infinity')) AS overlapped,
               bool_or(true) AS overlapped_unseen,
               sum(greatest(least(n.seen_until, o.seen_until, z.at) - greatest(n.since, o.since), interval '0')) AS twice
        FROM run o
        CROSS JOIN LATERAL (SELECT e.recorded_at AS at FROM controlplane.events e WHERE e.log = s.log ORDER BY e.position DESC LIMIT 1) z
        WHERE o.cluster <> n.cluster
          AND o.since < coalesce(n.ended_at, 'infinity') AND n.since < coalesce(o.ended_at, 'infinity')
    ) o ON true
) r
WHERE s.stream LIKE 'workload/%';

CREATE OR REPLACE VIEW audit.placements AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS workload,
       p.attempt,
       ARRAY(SELECT DISTINCT jsonb_path_query(p.offers, '$[*][*]') #>> '{}' ORDER BY 1) AS clusters_offered,
       coalesce(p.refused, '{}') AS clusters_refused,
       p.cluster, p.reason, p.offered_at, p.chosen_at, p.ready_at, p.finished_at, p.finish_reason,
       p.released_reason, p.retry_reason, p.evicted_reason, p.position,
       substring(s.stream FROM '/([^/]+)$') AS name, p.queue, p.owner, p.submitted_at, p.reserved_at,
       coalesce(p.reserved_at, p.offered_at) AS since, p.until
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT max(n.tried) AS attempt,
           jsonb_agg(n.d -> 'clusters') FILTER (WHERE n.begins) AS offers,
           array_agg(DISTINCT n.cluster) FILTER (WHERE n.type = 'ClusterRefused') AS refused,
           (array_agg(n.cluster ORDER BY n.position DESC) FILTER (WHERE n.type = 'WinnerChosen'))[1] AS cluster,
           (array_agg(n.reason ORDER BY n.position DESC) FILTER (WHERE n.type = 'WinnerChosen'))[1] AS reason,
           min(n.recorded_at) FILTER (WHERE n.begins) AS offered_at,
           max(n.recorded_at) FILTER (WHERE n.type = 'WinnerChosen') AS chosen_at,
           min(n.recorded_at) FILTER (WHERE n.d ->> 'cluster_name' <> '') AS ready_at,
           min(n.recorded_at) FILTER (WHERE n.finished IS NOT NULL) AS finished_at,
           (array_agg(n.finished ORDER BY n.position) FILTER (WHERE n.finished IS NOT NULL))[1] AS finish_reason,
           (array_agg(n.reason ORDER BY n.position DESC) FILTER (WHERE n.type = 'WinnerReleased'
               OR n.type = 'ClusterRefused' AND n.reason IN ('JobNameTaken', 'JobRefused')))[1] AS released_reason,
           (array_agg(n.reason ORDER BY n.position DESC) FILTER (WHERE n.type = 'CheckStateDecided'
               AND n.d ->> 'state' IN ('Retry', 'Rejected')))[1] AS retry_reason,
           (array_agg(n.evicted ORDER BY n.position) FILTER (WHERE n.evicted IS NOT NULL))[1] AS evicted_reason,
           max(n.position) FILTER (WHERE n.type = 'WinnerChosen') AS position,
           (array_agg(n.queue ORDER BY n.position) FILTER (WHERE n.queue IS NOT NULL))[1] AS queue,
           (array_agg(n.owner ORDER BY n.position) FILTER (WHERE n.owner IS NOT NULL))[1] AS owner,
           min(n.submitted_at) AS submitted_at,
           (array_agg(n.reserved_at ORDER BY n.position))[1] AS reserved_at,
           min(n.recorded_at) FILTER (WHERE n.type = 'WorkloadGone' OR n.type = 'WorkloadObserved'
               AND (n.finished IS NOT NULL OR n.evicted IS NOT NULL OR NOT n.reserved)) AS until
    FROM (
        SELECT m.*, max((m.d ->> 'attempt')::int) FILTER (WHERE m.begins) OVER (PARTITION BY m.life ORDER BY m.position) AS tried,
               min(m.recorded_at) FILTER (WHERE m.type = 'WorkloadObserved') OVER (PARTITION BY m.life) AS submitted_at,
               max(m.recorded_at) FILTER (WHERE m.reserves) OVER (PARTITION BY m.life ORDER BY m.position) AS reserved_at,
               CASE WHEN m.type = 'WorkloadObserved' THEN coalesce(m.d ->> 'queue_name', '') END AS queue,
               CASE WHEN m.type = 'WorkloadObserved' THEN (m.d -> 'owner' ->> 'kind') || '/' || (m.d -> 'owner' ->> 'name') END AS owner
        FROM (
            SELECT t.*, t.type IN ('NominationDecided', 'AttemptBegun') AS begins,
                   t.type = 'WorkloadObserved' AND t.reserved
                       AND NOT coalesce(lag(t.reserved) OVER (PARTITION BY t.life, t.type ORDER BY t.position), false) AS reserves
            FROM (
                SELECT u.*,
                       CASE WHEN u.type = 'WorkloadObserved' THEN
                           u.d @? '$.conditions[*] ? (@.type == "QuotaReserved" && @.status == "True")' END AS reserved,
                       CASE WHEN u.type = 'WorkloadObserved' THEN
                           jsonb_path_query_first(u.d, '$.conditions[*] ? (@.type == "Finished" && @.status == "True").reason') #>> '{}'
                       END AS finished,
                       CASE WHEN u.type = 'WorkloadObserved' THEN
                           jsonb_path_query_first(u.d, '$.conditions[*] ? (@.type == "Evicted" && @.status == "True").reason') #>> '{}'
                       END AS evicted
                FROM (
                    SELECT e.position, e.type, e.cluster, e.reason, e.recorded_at,
                           replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d,
                           count(*) FILTER (WHERE e.type = 'WorkloadGone')
                               OVER (ORDER BY e.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS life
                    FROM controlplane.events e
                    WHERE e.log = s.log AND e.stream = s.stream
                      AND e.type IN ('WorkloadObserved', 'WorkloadGone', 'NominationDecided', 'AttemptBegun', 'WinnerChosen',
                                     'WinnerReleased', 'ClusterRefused', 'CheckStateDecided')
                ) u
            ) t
        ) m
    ) n
    WHERE n.tried IS NOT NULL
    GROUP BY n.life, n.tried
) p
WHERE s.stream LIKE 'workload/%';

-- The Workload itself on the management cluster, and each of its copies on a worker.
CREATE VIEW audit.pending_reasons AS
SELECT p.log, p.namespace, p.name, p.queue, p.owner, '@management' AS cluster, p.attempt, p.since, p.until,
       CASE p.phase WHEN 'Pending' THEN 'quota' WHEN 'Inactive' THEN 'somebody to activate it' WHEN 'Reserved' THEN 'its nomination'
           WHEN 'Nominated' THEN 'a cluster to admit it' WHEN 'Chosen' THEN 'its job on ' || p.cluster
           WHEN 'Admitted' THEN coalesce(p.cluster || ' to start its job', 'its other admission checks')
           WHEN 'Retry' THEN 'Kueue to evict it' WHEN 'Rejected' THEN 'Kueue to deactivate it'
           ELSE 'its quota to be given back' END AS waits_for,
       p.reason, p.message, p.position
FROM audit.workload_phases p
WHERE p.phase NOT IN ('Running', 'Finished', 'Deleting', 'Deleted')
UNION ALL
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$'), substring(s.stream FROM '/([^/]+)$'),
       c.queue, c.owner, c.cluster, c.attempt, c.since, c.until, c.waits_for, c.reason, c.message, c.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT g.queue, g.owner, g.cluster, g.attempt, g.at AS since, lead(g.at) OVER (PARTITION BY g.cluster ORDER BY g.position) AS until,
           g.waits_for, g.reason, g.message, g.position
    FROM (
        SELECT k.*, w.*, (w.waits_for, w.reason, w.message, k.attempt) IS DISTINCT FROM
                   lag((w.waits_for, w.reason, w.message, k.attempt)) OVER (PARTITION BY k.cluster ORDER BY k.position) AS begins
        FROM (
            SELECT x.*, coalesce(max((x.d ->> 'attempt')::int) FILTER (WHERE x.type IN ('NominationDecided', 'AttemptBegun'))
                                     OVER (PARTITION BY x.life ORDER BY x.position), 0) AS attempt,
                   first_value(x.d ->> 'queue_name') OVER (PARTITION BY x.faces ORDER BY x.position) AS queue,
                   first_value((x.d -> 'owner' ->> 'kind') || '/' || (x.d -> 'owner' ->> 'name'))
                       OVER (PARTITION BY x.faces ORDER BY x.position) AS owner
            FROM (
                SELECT e.*, count(*) FILTER (WHERE e.type = 'WorkloadObserved') OVER (ORDER BY e.position) AS faces,
                       count(*) FILTER (WHERE e.type = 'WorkloadGone')
                           OVER (ORDER BY e.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS life
                FROM (
                    SELECT e.position, e.recorded_at AS at, e.type, e.cluster, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                    FROM controlplane.events e
                    WHERE e.log = s.log AND e.stream = s.stream
                      AND e.type IN ('WorkloadObserved', 'WorkloadGone', 'NominationDecided', 'AttemptBegun', 'CloneObserved', 'CloneGone')
                    OFFSET 0
                ) e
            ) x
        ) k
        CROSS JOIN LATERAL (
            SELECT jsonb_path_query_first(k.d, '$.conditions[*] ? (@.type == "Evicted" && @.status == "True")') AS evicted,
                   jsonb_path_query_first(k.d, '$.conditions[*] ? (@.type == "QuotaReserved")') AS quota,
                   k.d @? '$.conditions[*] ? (@.type == "Admitted" && @.status == "True")' AS admitted,
                   k.d @? '$.conditions[*] ? (@.type == "Finished" && @.status == "True")' AS finished
        ) h
        CROSS JOIN LATERAL (
            SELECT CASE WHEN k.type = 'CloneGone' OR h.finished OR h.admitted AND h.evicted IS NULL THEN NULL
                        WHEN h.evicted IS NOT NULL THEN 'its copy to be admitted again'
                        WHEN h.quota ->> 'status' = 'True' THEN 'the admission checks of its copy'
                        ELSE 'quota for its copy' END AS waits_for,
                   coalesce(h.evicted ->> 'reason', h.quota ->> 'reason', '') AS reason,
                   coalesce((SELECT string_agg(a.key || ': ' || a.value, ', ' ORDER BY a.key) FROM jsonb_each_text(k.d -> 'awaits') a
                             WHERE h.quota ->> 'status' = 'True'), h.evicted ->> 'message', h.quota ->> 'message', '') AS message
        ) w
        WHERE k.type IN ('CloneObserved', 'CloneGone')
    ) g
    WHERE g.begins
) c
WHERE s.stream LIKE 'workload/%' AND c.waits_for IS NOT NULL;

-- Cut at midnight UTC. What still runs counts as far as the log goes; what was lost and given up, until it was lost.
CREATE VIEW audit.usage AS
SELECT g.log, g.namespace, g.queue, g.cluster, g.day, g.runs, g.run_hours,
       (SELECT jsonb_object_agg(t.resource, t.hours) FROM (
            SELECT x.key AS resource, round(sum(x.value::numeric * (p.value ->> 'hours')::numeric), 4) AS hours
            FROM jsonb_array_elements(g.parts) p CROSS JOIN LATERAL jsonb_each_text(p.value -> 'resources') x
            WHERE jsonb_typeof(p.value -> 'resources') = 'object' GROUP BY x.key) t) AS resource_hours
FROM (
    SELECT r.log, r.namespace, r.queue, r.cluster, d.day::date AS day, count(*) AS runs, round(sum(h.hours), 4) AS run_hours,
           jsonb_agg(jsonb_build_object('hours', h.hours, 'resources', r.resources)) AS parts
    FROM audit.runs r
    CROSS JOIN LATERAL (
        SELECT coalesce(r.until, (SELECT e.recorded_at FROM controlplane.events e WHERE e.log = r.log ORDER BY e.position DESC LIMIT 1)) AS until
    ) u
    CROSS JOIN LATERAL generate_series(date_trunc('day', r.since AT TIME ZONE 'UTC'), u.until AT TIME ZONE 'UTC', interval '1 day') AS d (day)
    CROSS JOIN LATERAL (
        SELECT extract(epoch FROM least(u.until, (d.day + interval '1 day') AT TIME ZONE 'UTC')
                                  - greatest(r.since, d.day AT TIME ZONE 'UTC')) / 3600 AS hours
    ) h
    WHERE h.hours > 0 OR r.since = u.until
    GROUP BY r.log, r.namespace, r.queue, r.cluster, d.day
) g;

-- The writes of MultiKueue. Which event settles which write is controlplane/controllers/multikueue/state.py and job_changes.py.
CREATE VIEW audit.effects AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name, f.queue, f.owner, f.cluster, f.attempt, f.since, f.until, f.action, f.target, f.reason,
       f.tries, f.outcome, extract(epoch FROM f.until - f.since) AS seconds, f.error, f.position, f.last_position
FROM controlplane.streams s
LEFT JOIN LATERAL (
    SELECT replace(o.data::text, '\u0000', '\ufffd')::jsonb -> 'owner' ->> 'name' AS job
    FROM controlplane.events o
    WHERE o.log = s.log AND o.stream = s.stream AND o.type = 'WorkloadObserved'
    ORDER BY o.version DESC LIMIT 1
) o ON true
CROSS JOIN LATERAL (
    SELECT w.queue, w.owner, w.cluster, w.attempt, w.at AS since, e.recorded_at AS until, w.action, w.target, w.reason, w.tries,
           CASE WHEN e.position IS NULL THEN 'open' WHEN e.type = 'EffectUnneeded' THEN 'unneeded' WHEN e.type = 'EffectFailed' THEN 'refused'
                WHEN w.ended = w.replaced THEN 'replaced' WHEN w.ended = w.withdrawn THEN 'withdrawn' ELSE 'done' END AS outcome,
           CASE WHEN e.type = 'EffectFailed' THEN concat_ws(' ', e.data ->> 'code', e.data ->> 'error') || ': ' || (e.data ->> 'message') END AS error,
           w.position, e.position AS last_position
    FROM (
        SELECT v.*, 1 + coalesce(v.failures, 0) AS tries, least(v.closed, v.replaced, v.withdrawn) AS ended
        FROM (
            SELECT t.*,
                   CASE WHEN t.action IN ('CloneDecided', 'JobCreationDecided', 'GateOpeningDecided') THEN
                       least(min(CASE WHEN t.ends_all THEN t.position END) OVER after,
                             min(CASE WHEN t.ends_cluster THEN t.position END)
                                 OVER (PARTITION BY t.cluster ORDER BY t.position DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
                   END AS withdrawn,
                   CASE WHEN t.by_uid THEN min(CASE WHEN t.closes AND NOT t.stays THEN t.position END) OVER target
                        ELSE min(CASE WHEN t.closes THEN t.position END) OVER target END AS closed,
                   min(CASE WHEN t.action IS NOT NULL THEN t.position END) OVER target AS replaced,
                   -- how often the same write to the same object was refused, one time after the other, before this one
                   CASE WHEN t.action IS NOT NULL THEN CASE WHEN lag(t.action_said) OVER back = t.action_said
                       THEN lag(t.failures_said) OVER back END END AS failures
            FROM (
                SELECT y.*, coalesce(max(y.tried) OVER (PARTITION BY y.life ORDER BY y.position), 0) AS attempt,
                       first_value(y.queue_name) OVER (PARTITION BY y.faces ORDER BY y.position) AS queue,
                       first_value(y.owner_name) OVER (PARTITION BY y.faces ORDER BY y.position) AS owner
                FROM (
                    SELECT z.position, z.at, z.type, z.cluster, z.reason, z.target, z.closes,
                           CASE WHEN z.writes THEN z.type END AS action,
                           -- a removal of a copy by its UID alone needs no newer version of it: it goes on until the copy is going
                           z.type = 'RemovalDecided' AND coalesce(z.d ->> 'of', 'Workload') = 'Workload'
                               AND coalesce(z.d ->> 'resource_version', '') = '' AS by_uid,
                           z.type = 'CloneObserved' AND coalesce(z.d ->> 'deleting', 'false') = 'false' AND coalesce(z.d ->> 'bound_to', '') = ''
                               AND NOT z.d @? '$.conditions[*] ? (@.type == "Finished" && @.status == "True")' AS stays,
                           CASE WHEN z.writes THEN z.type ELSE z.d ->> 'action' END AS action_said,
                           CASE WHEN z.type = 'EffectFailed' THEN (z.d ->> 'failures')::int END AS failures_said,
                           CASE WHEN z.type IN ('NominationDecided', 'AttemptBegun') THEN (z.d ->> 'attempt')::int END AS tried,
                           CASE WHEN z.type = 'WorkloadObserved' THEN z.d ->> 'queue_name' END AS queue_name,
                           CASE WHEN z.type = 'WorkloadObserved' THEN (z.d -> 'owner' ->> 'kind') || '/' || (z.d -> 'owner' ->> 'name') END AS owner_name,
                           z.type = 'WorkloadGone' OR z.type = 'WorkloadObserved' AND (
                               NOT z.d @? '$.conditions[*] ? (@.type == "QuotaReserved" && @.status == "True")'
                               OR z.d @? '$.conditions[*] ? (@.type == "Evicted" && @.status == "True")') AS ends_all,
                           z.type IN ('ClusterRefused', 'WinnerReleased') AS ends_cluster,
                           count(*) FILTER (WHERE z.type = 'WorkloadObserved') OVER (ORDER BY z.position) AS faces,
                           count(*) FILTER (WHERE z.type = 'WorkloadGone')
                               OVER (ORDER BY z.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS life
                    FROM (
                        SELECT q.*, q.type IN ('NominationDecided', 'CloneDecided', 'GateOpeningDecided', 'JobCreationDecided', 'CheckStateDecided',
                                   'StatusRelayDecided', 'FinishDecided', 'NamesClearDecided', 'RemovalDecided', 'FinalizerRemovalDecided',
                                   'CloneUpdateDecided', 'SpecUpdateDecided', 'DeactivationDecided', 'ConditionDecided') AS writes,
                               q.type IN ('EffectFailed', 'EffectUnneeded', 'WorkloadObserved', 'WorkloadGone', 'CloneObserved', 'CloneGone',
                                   'RemoteJobObserved', 'RemoteJobGone', 'JobObserved', 'JobGone', 'MultiKueueClusterObserved',
                                   'MultiKueueClusterGone', 'AdmissionCheckObserved', 'AdmissionCheckGone') AS closes,
                               CASE WHEN q.type IN ('EffectFailed', 'EffectUnneeded') THEN q.d ->> 'target'
                                    WHEN q.type IN ('RemovalDecided', 'SpecUpdateDecided', 'ConditionDecided') THEN
                                        concat_ws('/', q.cluster, coalesce(q.d ->> 'of', CASE WHEN q.type = 'SpecUpdateDecided' THEN 'Job' ELSE 'Workload' END))
                                    WHEN q.type IN ('JobCreationDecided', 'StatusRelayDecided', 'RemoteJobObserved', 'RemoteJobGone') THEN
                                        concat_ws('/', q.cluster, 'Job')
                                    WHEN q.type IN ('JobObserved', 'JobGone') THEN '@management/Job'
                                    WHEN q.type LIKE 'MultiKueueCluster%' THEN concat_ws('/', q.cluster, 'MultiKueueCluster')
                                    WHEN q.type LIKE 'AdmissionCheck%' THEN concat_ws('/', q.cluster, 'AdmissionCheck')
                                    ELSE concat_ws('/', q.cluster, 'Workload') END AS target
                        FROM (
                            SELECT e.position, e.recorded_at AS at, e.type, e.cluster, e.reason,
                                   replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                            FROM controlplane.events e
                            WHERE e.log = s.log AND e.stream = s.stream
                            UNION ALL
                            SELECT e.position, e.recorded_at, e.type, e.cluster, e.reason, replace(e.data::text, '\u0000', '\ufffd')::jsonb
                            FROM controlplane.streams j
                            JOIN controlplane.events e ON e.log = j.log AND e.stream = j.stream
                            WHERE j.log = s.log AND j.stream LIKE 'job/%'
                              AND substring(j.stream FROM '/([^/]+)/[^/]+$') = substring(s.stream FROM '/([^/]+)/[^/]+$')
                              AND substring(j.stream FROM '/([^/]+)$') = o.job
                        ) q
                        WHERE coalesce(q.d ->> 'member', '') = '' AND NOT coalesce(q.d ->> 'kind' = 'pods' AND q.d ->> 'name' <> o.job, false)
                    ) z
                ) y
            ) t
            WINDOW after AS (ORDER BY t.position DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                   target AS (PARTITION BY t.target ORDER BY t.position DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                   back AS (PARTITION BY t.target ORDER BY t.position)
        ) v
        WHERE v.action IS NOT NULL
    ) w
    LEFT JOIN controlplane.events e ON e.log = s.log AND e.position = w.ended
) f
WHERE s.stream LIKE 'workload/%' OR s.stream LIKE 'cluster/%' OR s.stream LIKE 'admissioncheck/%';
