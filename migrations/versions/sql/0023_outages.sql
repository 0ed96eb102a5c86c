CREATE OR REPLACE VIEW audit.outage_workloads AS
SELECT o.log, o.namespace, o.name, o.queue, o.owner, o.cluster, o.attempt, o.since, o.until, o.became, o.ran_on, o.twice, o.run_since,
       o.run_until, o.position
FROM read_models.outage_runs o;

-- The counts come from one pass over all runs; a query that asks for none of them does not make it, since the join then adds nothing. One
-- column says which absence it is: of two, PostgreSQL would join by the log alone, and compare all absences with all.
CREATE OR REPLACE VIEW audit.outages AS
SELECT a.log, a.cluster, a.since, a.until, a.reason, a.message, a.others, a.others_connected, a.forgotten_by,
       coalesce(c.affected, 0) AS affected, coalesce(c.kept, 0) AS kept, coalesce(c.requeued, 0) AS requeued, coalesce(c.ended, 0) AS ended,
       coalesce(c.ran_on, 0) AS ran_on, coalesce(c.twice, interval '0') AS twice, a.position, a.last_position
FROM audit.cluster_absences a
LEFT JOIN (
    SELECT o.lost_position || '@' || o.log AS absence, count(DISTINCT (o.namespace, o.name)) AS affected,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became = 'Kept') AS kept,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became = 'Requeued') AS requeued,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.became NOT IN ('Kept', 'Requeued')) AS ended,
           count(DISTINCT (o.namespace, o.name)) FILTER (WHERE o.ran_on) AS ran_on, sum(o.twice) AS twice
    FROM read_models.outage_runs o
    GROUP BY o.lost_position || '@' || o.log
) c ON c.absence = a.position || '@' || a.log;
