-- What people and dashboards write SQL against. Views only: nothing here holds data, so nothing can disagree with the log.
--
-- A view over one object's history starts from `streams` (one row a stream) and goes to `events` by (log, stream, position). The way
-- from a namespace and a name to a stream is an index on two expressions of `streams`: on `events` it would cost every append. The
-- expressions are spelt the same wherever they stand, so that the planner recognises them:
--     namespace  substring(stream FROM '/([^/]+)/[^/]+$')     the last but one of three or more parts
--     name       substring(stream FROM '/([^/]+)$')           the last part
CREATE INDEX streams_object ON controlplane.streams
    (substring(stream FROM '/([^/]+)/[^/]+$'), substring(stream FROM '/([^/]+)$'));
CREATE INDEX streams_cluster ON controlplane.streams (log, stream) WHERE stream LIKE 'cluster/%';

CREATE SCHEMA audit;
COMMENT ON SCHEMA audit IS 'The history of the fleet: views to read, an interface. Columns are added; none changes its meaning.';

CREATE VIEW audit.streams AS
SELECT s.log, s.stream, split_part(s.stream, '/', 1) AS kind,
       substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name, s.version AS events
FROM controlplane.streams s;
COMMENT ON VIEW audit.streams IS 'Whose history there is: one row a stream.';
COMMENT ON COLUMN audit.streams.log IS 'The log; "main" unless database.log says otherwise.';
COMMENT ON COLUMN audit.streams.stream IS 'The name of the history, such as workload/NAMESPACE/NAME.';
COMMENT ON COLUMN audit.streams.kind IS 'workload, job, cluster, clusterqueue, admissioncheck, multikueueconfig, fleet, service or refused.';
COMMENT ON COLUMN audit.streams.namespace IS 'The namespace of the object; null where the stream has none.';
COMMENT ON COLUMN audit.streams.name IS 'The name of the object; null where the stream has none.';
COMMENT ON COLUMN audit.streams.events IS 'How many events the stream has.';

-- The outer join costs nothing where namespace and name are not asked for (the planner drops it), and where they are filtered on it
-- becomes an inner join that starts from the index on streams.
CREATE VIEW audit.events AS
SELECT e.log, e.position, e.stream, e.version, e.type, e.schema, e.reason, e.cluster,
       substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS name,
       -- jsonb cannot hold the character NUL; what came from a cluster may.
       replace(e.data::text, '\u0000', '\ufffd')::jsonb AS data,
       e.caused_by, e.trace, e.observed_at, e.recorded_at
FROM controlplane.events e
LEFT JOIN controlplane.streams s ON s.log = e.log AND s.stream = e.stream;
COMMENT ON VIEW audit.events IS 'Every event of every log, as it was recorded.';
COMMENT ON COLUMN audit.events.log IS 'The log; "main" unless database.log says otherwise.';
COMMENT ON COLUMN audit.events.position IS 'The place in the log: 1, 2, 3 without holes, in commit order.';
COMMENT ON COLUMN audit.events.stream IS 'Whose history the event belongs to, such as workload/NAMESPACE/NAME.';
COMMENT ON COLUMN audit.events.version IS 'The place in the stream, from 1.';
COMMENT ON COLUMN audit.events.type IS 'What happened: the name of an event type.';
COMMENT ON COLUMN audit.events.schema IS 'The number of the shape of data.';
COMMENT ON COLUMN audit.events.reason IS 'Why, for a decision; what the API server or the connection said, for a failure; else empty.';
COMMENT ON COLUMN audit.events.cluster IS 'Where it was seen or what it concerns; @management is the management cluster.';
COMMENT ON COLUMN audit.events.namespace IS 'The namespace of the object that the stream is about; null where it has none.';
COMMENT ON COLUMN audit.events.name IS 'The name of the object that the stream is about; null where it has none.';
COMMENT ON COLUMN audit.events.data IS 'The fields of the event; one that has its default is left out.';
COMMENT ON COLUMN audit.events.caused_by IS 'The position of the event on which the decision was taken; null for what was seen.';
COMMENT ON COLUMN audit.events.trace IS 'Ties the event to the messages of the service.';
COMMENT ON COLUMN audit.events.observed_at IS 'When the service saw it, by the service''s clock; null for decisions.';
COMMENT ON COLUMN audit.events.recorded_at IS 'When it was committed, by the database''s clock.';

-- The story of a Workload. From the inside: the events of the Workload and of its job; the attempt that each belongs to; a text and a
-- chain for each; and of a chain only the links whose text is new. controlplane/audit/timeline.py tells the same story of the same events.
CREATE VIEW audit.workload_timeline AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS workload,
       o.job, m.position, m.at, m.cluster, m.what, m.reason, m.type
FROM controlplane.streams s
LEFT JOIN LATERAL (
    SELECT d.owner ->> 'name' AS job, d.owner ->> 'uid' AS uid
    FROM controlplane.events e
    CROSS JOIN LATERAL (SELECT replace(e.data::text, '\u0000', '\ufffd')::jsonb -> 'owner' AS owner) d
    WHERE e.log = s.log AND e.stream = s.stream AND e.type = 'WorkloadObserved'
    ORDER BY e.position DESC LIMIT 1
) o ON true
CROSS JOIN LATERAL (
    SELECT t.position, t.at, t.cluster, t.what, t.reason, t.type,
           (t.what, t.reason, t.d ->> 'uid') IS DISTINCT FROM lag((t.what, t.reason, t.d ->> 'uid'))
               OVER (PARTITION BY t.chain ORDER BY t.position) AS noteworthy
    FROM (
        SELECT h.*,
               CASE
                   WHEN h.type IN ('WorkloadObserved', 'WorkloadGone', 'CloneObserved', 'CloneGone') THEN 'seen Workload ' || h.cluster
                   WHEN h.type IN ('JobObserved', 'JobGone', 'RemoteJobObserved', 'RemoteJobGone') THEN 'seen job ' || h.cluster
                   WHEN h.type = 'EffectFailed' THEN concat_ws(' ', 'failed', h.d ->> 'target', h.d ->> 'action', h.life, h.attempt)
                   WHEN h.type = 'RemovalDecided' AND h.d ->> 'of' = 'Job' OR h.type = 'JobCreationDecided'
                       THEN concat_ws(' ', 'job', h.cluster, h.life, h.attempt)
                   WHEN h.type IN ('CloneDecided', 'CloneUpdateDecided', 'DeactivationDecided', 'RemovalDecided',
                                   'FinalizerRemovalDecided') THEN concat_ws(' ', 'copy', h.cluster, h.life, h.attempt)
                   WHEN h.type IN ('WinnerChosen', 'WinnerReleased', 'ClusterRefused')
                       THEN concat_ws(' ', 'choice', h.cluster, h.life, h.attempt)
                   WHEN h.type = 'CopyJudged' THEN concat_ws(' ', 'judged', h.cluster, h.life, h.attempt)
                   WHEN h.type IN ('NominationDecided', 'CheckStateDecided', 'StatusRelayDecided', 'FinishDecided')
                       THEN concat_ws(' ', h.type, h.life, h.attempt)
                   ELSE h.position::text
               END AS chain,
               coalesce(CASE h.type
                   WHEN 'WorkloadObserved' THEN 'Workload ' || f.face
                   WHEN 'WorkloadGone' THEN 'Workload is gone'
                   WHEN 'CloneObserved' THEN 'copy ' || f.face
                   WHEN 'CloneGone' THEN 'copy is gone'
                   WHEN 'JobObserved' THEN 'job ' || f.activity
                   WHEN 'JobGone' THEN 'job is gone'
                   WHEN 'RemoteJobObserved' THEN 'job''s copy ' || f.activity
                   WHEN 'RemoteJobGone' THEN 'job''s copy is gone'
                   WHEN 'NominationDecided' THEN 'offered to ' || f.offered || ' (attempt ' || (h.d ->> 'attempt') || ')'
                   WHEN 'CloneDecided' THEN 'copy is to be created (attempt ' || (h.d ->> 'attempt') || ')'
                   WHEN 'WinnerChosen' THEN 'chosen (attempt ' || (h.d ->> 'attempt') || ')'
                   WHEN 'WinnerReleased' THEN 'choice taken back (attempt ' || (h.d ->> 'attempt') || ')'
                   WHEN 'ClusterRefused' THEN 'left out for a while (attempt ' || (h.d ->> 'attempt') || ')'
                   WHEN 'CopyJudged' THEN 'copy on the cluster that came back: ' || lower(h.d ->> 'verdict')
                   WHEN 'JobCreationDecided' THEN 'job''s copy is to be created (attempt ' || (h.d ->> 'attempt') || ')'
                   WHEN 'CheckStateDecided' THEN 'admission check is to be ' || (h.d ->> 'state')
                   WHEN 'StatusRelayDecided' THEN CASE
                       WHEN h.d ->> 'drain' = 'true' THEN 'job''s status is to show that nothing runs'
                       WHEN h.d ->> 'mark_suspended' = 'true' THEN 'job''s status is to say Suspended'
                       WHEN h.reason = 'FinalStatus' THEN 'job''s last status is to be copied'
                       ELSE 'job''s status is to be copied' END
                   WHEN 'FinishDecided' THEN 'Workload is to finish (' || (h.d ->> 'finish_reason') || ')'
                   WHEN 'RemovalDecided' THEN
                       CASE h.d ->> 'of' WHEN 'Job' THEN 'job''s copy is to be removed' ELSE 'copy is to be removed' END
                   WHEN 'FinalizerRemovalDecided' THEN 'copy is to be removed'
                   WHEN 'CloneUpdateDecided' THEN 'copy''s priority is to be ' || coalesce(h.d -> 'priority' ->> 'value', '0')
                   WHEN 'DeactivationDecided' THEN 'copy is to stop'
                   WHEN 'EffectFailed' THEN 'write refused (' || concat_ws(' ', h.d ->> 'code', nullif(h.d ->> 'error', '')) || ')'
               END, h.type) AS what
        FROM (
            SELECT l.*, coalesce(max((l.d ->> 'attempt')::int) FILTER (WHERE l.type = 'NominationDecided')
                                     OVER (PARTITION BY l.life ORDER BY l.position), 0) AS attempt
            FROM (
                SELECT a.position, a.recorded_at AS at, a.cluster, a.reason, a.type, a.d,
                       count(*) FILTER (WHERE a.type = 'WorkloadGone')
                           OVER (ORDER BY a.position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS life
                FROM (
                    SELECT e.position, e.recorded_at, e.cluster, e.reason, e.type, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                    FROM controlplane.events e WHERE e.log = s.log AND e.stream = s.stream
                    UNION ALL
                    SELECT e.position, e.recorded_at, e.cluster, e.reason, e.type, d.d
                    FROM controlplane.streams j
                    JOIN controlplane.events e ON e.log = j.log AND e.stream = j.stream
                    CROSS JOIN LATERAL (SELECT replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d) d
                    WHERE j.log = s.log AND j.stream LIKE 'job/%'
                      AND substring(j.stream FROM '/([^/]+)/[^/]+$') = substring(s.stream FROM '/([^/]+)/[^/]+$')
                      AND substring(j.stream FROM '/([^/]+)$') = o.job
                      AND (o.uid IS NULL OR d.d ->> 'uid' = o.uid)
                ) a
            ) l
        ) h
        CROSS JOIN LATERAL (
            SELECT coalesce(h.d ->> 'active', 'true') = 'true' AS active,
                   coalesce(h.d ->> 'deleting', 'false') = 'true' AS deleting,
                   h.d @? '$.conditions[*] ? (@.type == "Finished" && @.status == "True")' AS finished,
                   h.d @? '$.conditions[*] ? (@.type == "Evicted" && @.status == "True")' AS evicted,
                   h.d @? '$.conditions[*] ? (@.type == "Admitted" && @.status == "True")' AS admitted,
                   h.d @? '$.conditions[*] ? (@.type == "QuotaReserved" && @.status == "True")' AS reserved,
                   jsonb_path_query_first(h.d, '$.conditions[*] ? (@.type == "Finished").reason') #>> '{}' AS finish_reason,
                   jsonb_path_query_first(h.d, '$.conditions[*] ? (@.type == "Evicted").reason') #>> '{}' AS evict_reason
        ) c
        CROSS JOIN LATERAL (
            SELECT CASE
                       WHEN c.finished THEN 'finished' || coalesce(' (' || c.finish_reason || ')', '')
                       WHEN c.deleting THEN 'is being deleted'
                       WHEN NOT c.active THEN 'is deactivated'
                       WHEN c.evicted AND c.reserved THEN 'is evicted' || coalesce(' (' || c.evict_reason || ')', '')
                       WHEN c.evicted THEN 'waits for quota again'
                       WHEN c.admitted THEN 'is admitted'
                       WHEN c.reserved THEN 'has quota' || coalesce(' in ' || nullif(h.d ->> 'cluster_queue', ''), '')
                       ELSE 'waits for quota'
                   END AS face,
                   CASE
                       WHEN h.d ->> 'finished' = 'true' THEN 'finished'
                       WHEN c.deleting THEN 'is being deleted'
                       WHEN h.d ->> 'suspended' = 'true' THEN 'is suspended'
                       WHEN coalesce(h.d ->> 'inactive', 'true') = 'true' THEN 'may start'
                       ELSE 'runs'
                   END AS activity,
                   CASE WHEN h.type = 'NominationDecided' THEN
                       (SELECT string_agg(n.name, ', ' ORDER BY n.at)
                        FROM jsonb_array_elements_text(h.d -> 'clusters') WITH ORDINALITY AS n (name, at)) END AS offered
        ) f
        -- Housekeeping, and the conflicts that are the normal way of two writers to one object.
        WHERE h.type NOT IN ('NamesClearDecided', 'EffectUnneeded') AND NOT (h.type = 'EffectFailed' AND h.d ->> 'code' = '409')
    ) t
) m
WHERE s.stream LIKE 'workload/%' AND m.noteworthy;
COMMENT ON VIEW audit.workload_timeline IS
    'The story of each Workload and its job: one row a moment at which something changed. What repeats itself is left out.';
COMMENT ON COLUMN audit.workload_timeline.log IS 'The log.';
COMMENT ON COLUMN audit.workload_timeline.namespace IS 'The namespace of the Workload and its job.';
COMMENT ON COLUMN audit.workload_timeline.workload IS 'The name of the Workload.';
COMMENT ON COLUMN audit.workload_timeline.job IS 'The name of the job that owns it; null if no owner was seen.';
COMMENT ON COLUMN audit.workload_timeline.position IS 'The position of the event.';
COMMENT ON COLUMN audit.workload_timeline.at IS 'When it was recorded.';
COMMENT ON COLUMN audit.workload_timeline.cluster IS 'Where; @management is the management cluster.';
COMMENT ON COLUMN audit.workload_timeline.what IS 'What happened, in a few words; "is to" marks a decision, the rest was seen.';
COMMENT ON COLUMN audit.workload_timeline.reason IS 'Why, for a decision; what the API server said, for a refused write; else empty.';
COMMENT ON COLUMN audit.workload_timeline.type IS 'The type of the event.';

CREATE VIEW audit.placements AS
SELECT s.log, substring(s.stream FROM '/([^/]+)/[^/]+$') AS namespace, substring(s.stream FROM '/([^/]+)$') AS workload,
       p.attempt,
       ARRAY(SELECT DISTINCT jsonb_path_query(p.offers, '$[*][*]') #>> '{}' ORDER BY 1) AS clusters_offered,
       coalesce(p.refused, '{}') AS clusters_refused,
       p.cluster, p.reason, p.offered_at, p.chosen_at, p.ready_at, p.finished_at, p.finish_reason,
       p.released_reason, p.retry_reason, p.evicted_reason, p.position
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT max(n.tried) AS attempt,
           jsonb_agg(n.d -> 'clusters') FILTER (WHERE n.type = 'NominationDecided') AS offers,
           array_agg(DISTINCT n.cluster) FILTER (WHERE n.type = 'ClusterRefused') AS refused,
           (array_agg(n.cluster ORDER BY n.position DESC) FILTER (WHERE n.type = 'WinnerChosen'))[1] AS cluster,
           (array_agg(n.reason ORDER BY n.position DESC) FILTER (WHERE n.type = 'WinnerChosen'))[1] AS reason,
           min(n.recorded_at) FILTER (WHERE n.type = 'NominationDecided') AS offered_at,
           max(n.recorded_at) FILTER (WHERE n.type = 'WinnerChosen') AS chosen_at,
           min(n.recorded_at) FILTER (WHERE n.d ->> 'cluster_name' <> '') AS ready_at,
           min(n.recorded_at) FILTER (WHERE n.finished IS NOT NULL) AS finished_at,
           (array_agg(n.finished ORDER BY n.position) FILTER (WHERE n.finished IS NOT NULL))[1] AS finish_reason,
           (array_agg(n.reason ORDER BY n.position DESC) FILTER (WHERE n.type = 'WinnerReleased'
               OR n.type = 'ClusterRefused' AND n.reason IN ('JobNameTaken', 'JobRefused')))[1] AS released_reason,
           (array_agg(n.reason ORDER BY n.position DESC) FILTER (WHERE n.type = 'CheckStateDecided'
               AND n.d ->> 'state' IN ('Retry', 'Rejected')))[1] AS retry_reason,
           (array_agg(n.evicted ORDER BY n.position) FILTER (WHERE n.evicted IS NOT NULL))[1] AS evicted_reason,
           max(n.position) FILTER (WHERE n.type = 'WinnerChosen') AS position
    FROM (
        SELECT t.*, max((t.d ->> 'attempt')::int) FILTER (WHERE t.type = 'NominationDecided')
                        OVER (PARTITION BY t.life ORDER BY t.position) AS tried,
               CASE WHEN t.type = 'WorkloadObserved' THEN
                   jsonb_path_query_first(t.d, '$.conditions[*] ? (@.type == "Finished" && @.status == "True").reason') #>> '{}'
               END AS finished,
               CASE WHEN t.type = 'WorkloadObserved' THEN
                   jsonb_path_query_first(t.d, '$.conditions[*] ? (@.type == "Evicted" && @.status == "True").reason') #>> '{}'
               END AS evicted
        FROM (
            SELECT e.position, e.type, e.cluster, e.reason, e.recorded_at,
                   replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d,
                   count(*) FILTER (WHERE e.type = 'WorkloadGone')
                       OVER (ORDER BY e.position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS life
            FROM controlplane.events e
            WHERE e.log = s.log AND e.stream = s.stream
              AND e.type IN ('WorkloadObserved', 'WorkloadGone', 'NominationDecided', 'WinnerChosen', 'WinnerReleased',
                             'ClusterRefused', 'CheckStateDecided')
        ) t
    ) n
    WHERE n.tried IS NOT NULL
    GROUP BY n.life, n.tried
) p
WHERE s.stream LIKE 'workload/%';
COMMENT ON VIEW audit.placements IS 'One row for each attempt to find a cluster for a Workload: who was offered it, who got it, and how it ended.';
COMMENT ON COLUMN audit.placements.log IS 'The log.';
COMMENT ON COLUMN audit.placements.namespace IS 'The namespace of the Workload.';
COMMENT ON COLUMN audit.placements.workload IS 'The name of the Workload.';
COMMENT ON COLUMN audit.placements.attempt IS 'The number of the attempt: 1 for the first, one more after each eviction.';
COMMENT ON COLUMN audit.placements.clusters_offered IS 'The clusters that it was offered to, in the order of their names.';
COMMENT ON COLUMN audit.placements.clusters_refused IS 'Those that could not have it.';
COMMENT ON COLUMN audit.placements.cluster IS 'The cluster that was chosen, the last one if there were several; null if none was.';
COMMENT ON COLUMN audit.placements.reason IS 'Why that one.';
COMMENT ON COLUMN audit.placements.offered_at IS 'When it was offered first.';
COMMENT ON COLUMN audit.placements.chosen_at IS 'When that cluster was chosen.';
COMMENT ON COLUMN audit.placements.ready_at IS 'When the Workload was seen with its cluster''s name: the admission check is Ready.';
COMMENT ON COLUMN audit.placements.finished_at IS 'When the Workload was seen finished.';
COMMENT ON COLUMN audit.placements.finish_reason IS 'How it finished: the reason of the condition Finished.';
COMMENT ON COLUMN audit.placements.released_reason IS 'Why a choice of this attempt was taken back before the check was Ready; null if none was.';
COMMENT ON COLUMN audit.placements.retry_reason IS 'Why the admission check was set to Retry or Rejected; null if it was not.';
COMMENT ON COLUMN audit.placements.evicted_reason IS 'Why the Workload was evicted on the management cluster; null if it was not.';
COMMENT ON COLUMN audit.placements.position IS 'The position of the choice: the event that says who else had admitted it.';

-- The phases are those of controlplane/controllers/connectivity/state.py; a change of leader (ServiceStarted) makes what was Connected Unknown.
CREATE VIEW audit.cluster_connectivity AS
SELECT s.log, substring(s.stream FROM '/([^/]+)$') AS cluster, i.phase, i.since,
       lead(i.since) OVER (PARTITION BY s.log, substring(s.stream FROM '/([^/]+)$') ORDER BY i.since, i.position) AS until,
       i.reason, i.message, i.incarnation
FROM controlplane.streams s
CROSS JOIN LATERAL (
    SELECT w.position, w.recorded_at AS since, w.phase, w.reason, w.message, w.incarnation,
           w.phase IS DISTINCT FROM lag(w.phase) OVER (ORDER BY w.position) AS begins
    FROM (
        SELECT k.position, k.recorded_at, k.message,
               CASE WHEN k.type <> 'ServiceStarted' THEN k.reason ELSE '' END AS reason,
               CASE
                   WHEN k.type <> 'ServiceStarted' THEN k.phase
                   WHEN first_value(k.phase) OVER (PARTITION BY k.told ORDER BY k.position) IN ('Connected', 'Suspect') THEN 'Unknown'
                   ELSE first_value(k.phase) OVER (PARTITION BY k.told ORDER BY k.position)
               END AS phase,
               first_value(k.d ->> 'incarnation') OVER (PARTITION BY k.joined ORDER BY k.position) AS incarnation
        FROM (
            SELECT c.position, c.type, c.reason, c.recorded_at, c.d,
                   CASE WHEN c.type <> 'ServiceStarted' THEN coalesce(c.d ->> 'message', '') ELSE '' END AS message,
                   CASE c.type
                       WHEN 'ClusterConnected' THEN 'Connected'
                       WHEN 'ClusterSuspected' THEN 'Suspect'
                       WHEN 'ClusterRecovered' THEN 'Connected'
                       WHEN 'ClusterLost' THEN 'Lost'
                       WHEN 'ClusterDisconnected' THEN 'Removed'
                       WHEN 'ClusterConnectFailed' THEN
                           CASE WHEN count(*) FILTER (WHERE c.type = 'ClusterConnected') OVER earlier > 0 THEN 'Lost' ELSE 'Failed' END
                   END AS phase,
                   count(*) FILTER (WHERE c.type <> 'ServiceStarted') OVER earlier AS told,
                   count(*) FILTER (WHERE c.type = 'ClusterConnected') OVER earlier AS joined
            FROM (
                SELECT e.position, e.type, e.reason, e.recorded_at, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                FROM controlplane.events e
                WHERE e.log = s.log AND e.stream = s.stream
                  AND e.type IN ('ClusterConnected', 'ClusterSuspected', 'ClusterRecovered', 'ClusterLost', 'ClusterDisconnected',
                                 'ClusterConnectFailed')
                UNION ALL
                SELECT e.position, e.type, e.reason, e.recorded_at, replace(e.data::text, '\u0000', '\ufffd')::jsonb AS d
                FROM controlplane.events e
                WHERE e.log = s.log AND e.stream = 'service' AND e.type = 'ServiceStarted'
            ) c
            WINDOW earlier AS (ORDER BY c.position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        ) k
        WHERE k.told > 0
    ) w
) i
WHERE s.stream LIKE 'cluster/%' AND i.begins;
COMMENT ON VIEW audit.cluster_connectivity IS 'The connection to each cluster, as intervals that follow one another.';
COMMENT ON COLUMN audit.cluster_connectivity.log IS 'The log.';
COMMENT ON COLUMN audit.cluster_connectivity.cluster IS 'The name of the MultiKueueCluster; @management is the management cluster.';
COMMENT ON COLUMN audit.cluster_connectivity.phase IS
    'Connected; Suspect (a sign of life is overdue); Lost (it was connected before); Failed (it never was); Removed; Unknown (a'
    ' process took over and has not tried yet).';
COMMENT ON COLUMN audit.cluster_connectivity.since IS 'When the interval began.';
COMMENT ON COLUMN audit.cluster_connectivity.until IS 'When it ended; null if it lasts.';
COMMENT ON COLUMN audit.cluster_connectivity.reason IS 'What began it, in one word.';
COMMENT ON COLUMN audit.cluster_connectivity.message IS 'What began it, as it was said.';
COMMENT ON COLUMN audit.cluster_connectivity.incarnation IS
    'Which life of the cluster was connected last: the UID of its namespace kube-system; null if it is not known.';

GRANT USAGE ON SCHEMA audit TO controlplane_reader, controlplane_service;
GRANT SELECT ON ALL TABLES IN SCHEMA audit TO controlplane_reader, controlplane_service;
