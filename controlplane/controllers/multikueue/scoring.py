"""Filters and orders the clusters that can take a Workload, by the rules of the settings: labels of MultiKueueClusters,
cost, how fast a cluster admitted lately, how often it refused, where the queue's other Workloads are, and where the
job's data is.

In: the rules, what is known of each cluster, the job's labels. Out: why a cluster is left out, and a score from 0 to
100 for each of the others, with its parts. Pure. As in kube-scheduler each rule gives 0 to 100, and the sum is weighted
(kubernetes/kubernetes pkg/scheduler/framework/runtime/framework.go, v1.36); `maxSkew` means what it does in pod
topology spread (pkg/scheduler/framework/plugins/podtopologyspread)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from controlplane.controllers.multikueue.events import ClusterScore
from controlplane.kube.selectors import InvalidSelector, LabelSelector, parse_selector
from controlplane.values import Value

CLUSTER_SELECTOR = "controlplane/cluster-selector"
"""The annotation of a job that says which clusters may be asked, by the labels of their MultiKueueClusters."""

_MOST = 100


class ScoringRules(Value):
    """The rules: what a cluster must match, and what each of the rest counts. A rule without its label, or with the
    weight 0, is off. `spread_label` "metadata.name" spreads over the clusters themselves."""

    cluster_selector: str = ""
    cost_label: str = ""
    cost_weight: int = 1
    locality_labels: tuple[str, ...] = ()
    locality_weight: int = 1
    latency_weight: int = 1
    rejection_weight: int = 1
    flavors_weight: int = 0
    spread_label: str = ""
    spread_max_skew: int = 1
    spread_required: bool = False
    spread_weight: int = 1


class ScoringFacts(Value):
    """What is known of a cluster. `labels`: of its MultiKueueCluster; `admission_seconds`: the median of its recent
    `admissions`; `refusals` as recent; `placed`: how many Workloads of the same ClusterQueue are there; `flavors`: how
    well the Workload fits into what is left there, and why (`controlplane.controllers.multikueue.flavors`)."""

    labels: Mapping[str, str] = {}
    admission_seconds: float | None = None
    admissions: int = 0
    refusals: int = 0
    placed: int = 0
    flavors: tuple[int, str] = (50, "not known")


class Subject(Value):
    """What counts of the job itself: the clusters that it allows, and its labels."""

    cluster_selector: str = ""
    labels: Mapping[str, str] = {}


def selector_problem(text: str) -> str:
    """Return what is wrong with a job's cluster selector, "" if nothing is."""
    try:
        parse_selector(text, CLUSTER_SELECTOR)
    except InvalidSelector as problem:
        return f"the job's annotation {problem}"
    return ""


class WorkloadScoring(Value):
    """The rules and the facts of one Workload's clusters."""

    rules: ScoringRules
    facts: Mapping[str, ScoringFacts]

    def excluded(self, job: Subject, clusters: Sequence[str]) -> dict[str, str]:
        """Return why some of the clusters that could take the job may not be asked, for people. The text does not
        change while the reason stays, since it is written to the Workload."""
        found = {}
        for cluster in clusters:
            labels = self._labels(cluster)
            if not parse_selector(self.rules.cluster_selector).matches(labels):
                found[cluster] = (
                    f"its labels do not match multikueue.scoring.clusterSelector ({self.rules.cluster_selector})"
                )
            elif not _selector_of(job).matches(labels):
                found[cluster] = f"its labels do not match the job's {CLUSTER_SELECTOR} ({job.cluster_selector})"
        if self.rules.spread_label and self.rules.spread_required:
            found |= self._too_many([cluster for cluster in clusters if cluster not in found])
        return found

    def scores(self, job: Subject, clusters: Sequence[str]) -> list[ClusterScore]:
        """Return the clusters with their scores, the best first; of equal ones in the order given."""
        parts = {name: rule(job, clusters) for name, rule in self._active(job)}
        weights = {name: self._weight(name) for name in parts}
        total = sum(weights.values())
        scored = [
            ClusterScore(
                cluster=cluster,
                score=round(sum(weights[name] * part[cluster][0] for name, part in parts.items()) / total)
                if total
                else 0,
                rules={name: part[cluster][0] for name, part in parts.items()},
                facts={name: part[cluster][1] for name, part in parts.items()},
            )
            for cluster in clusters
        ]
        return sorted(scored, key=lambda one: -one.score)

    def _weight(self, name: str) -> int:
        return int(getattr(self.rules, f"{name}_weight"))

    def _active(self, job: Subject) -> list[tuple[str, _Rule]]:
        rules = self.rules
        known: list[tuple[str, bool, _Rule]] = [
            ("cost", bool(rules.cost_label), self._cost),
            ("locality", any(key in job.labels for key in rules.locality_labels), self._locality),
            ("latency", True, self._latency),
            ("rejection", True, self._rejection),
            ("flavors", True, self._flavors),
            ("spread", bool(rules.spread_label), self._spread),
        ]
        return [(name, rule) for name, on, rule in known if on and self._weight(name)]

    def _facts(self, cluster: str) -> ScoringFacts:
        return self.facts.get(cluster, _UNKNOWN)

    def _labels(self, cluster: str) -> Mapping[str, str]:
        return {"metadata.name": cluster, **self._facts(cluster).labels}

    def _cost(self, _job: Subject, clusters: Sequence[str]) -> _Part:
        said = {cluster: self._labels(cluster).get(self.rules.cost_label, "") for cluster in clusters}
        costs = {cluster: _number(text) for cluster, text in said.items()}
        scores = _least_is_best(costs, unknown=0)
        return {c: (scores[c], said[c] if costs[c] is not None else f"no number ({said[c]!r})") for c in clusters}

    def _locality(self, job: Subject, clusters: Sequence[str]) -> _Part:
        asked = [key for key in self.rules.locality_labels if key in job.labels]
        equal = {c: sum(self._labels(c).get(key) == job.labels[key] for key in asked) for c in clusters}
        return {c: (round(_MOST * equal[c] / len(asked)), f"{equal[c]} of {len(asked)} labels") for c in clusters}

    def _latency(self, _job: Subject, clusters: Sequence[str]) -> _Part:
        """A cluster of which nothing is known counts as the quickest: only asking it tells."""
        known = {cluster: self._facts(cluster).admission_seconds for cluster in clusters}
        scores = _least_is_best(known, unknown=_MOST)
        return {
            c: (scores[c], "not known" if known[c] is None else f"{known[c]:.1f} s of {self._facts(c).admissions}")
            for c in clusters
        }

    def _rejection(self, _job: Subject, clusters: Sequence[str]) -> _Part:
        found = {}
        for cluster in clusters:
            facts = self._facts(cluster)
            answers = facts.admissions + facts.refusals
            score = round(_MOST * facts.admissions / answers) if answers else _MOST
            found[cluster] = (score, f"{facts.refusals} of {answers} refused")
        return found

    def _flavors(self, _job: Subject, clusters: Sequence[str]) -> _Part:
        return {cluster: self._facts(cluster).flavors for cluster in clusters}

    def _spread(self, _job: Subject, clusters: Sequence[str]) -> _Part:
        placed = self._placed()
        domains = {cluster: self._labels(cluster).get(self.rules.spread_label) for cluster in clusters}
        counts: dict[str, float | None] = {c: placed[d] if d is not None else None for c, d in domains.items()}
        scores = _least_is_best(counts, unknown=0)
        label = self.rules.spread_label
        return {
            c: (scores[c], f"no label {label}" if d is None else f"{placed[d]} in {label}={d}")
            for c, d in domains.items()
        }

    def _placed(self) -> dict[str, int]:
        """Return how many Workloads of the queue are in each topology domain, also those of clusters that are away."""
        counts: dict[str, int] = {}
        for cluster, facts in self.facts.items():
            domain = self._labels(cluster).get(self.rules.spread_label)
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + facts.placed
        return counts

    def _too_many(self, clusters: Sequence[str]) -> dict[str, str]:
        label, placed = self.rules.spread_label, self._placed()
        domains = {cluster: self._labels(cluster).get(label) for cluster in clusters}
        least = min((placed[domain] for domain in domains.values() if domain is not None), default=0)
        found = {}
        for cluster, domain in domains.items():
            if domain is None:
                found[cluster] = f"it has no label {label} to spread over"
            elif placed[domain] + 1 - least > self.rules.spread_max_skew:
                found[cluster] = (
                    f"too many Workloads of the queue are in {label}={domain} (multikueue.scoring.spreadMaxSkew)"
                )
        return found


_Part = dict[str, tuple[int, str]]
_Rule = Callable[[Subject, Sequence[str]], _Part]
_UNKNOWN = ScoringFacts()


def _selector_of(job: Subject) -> LabelSelector:
    """Return the job's selector. One that is wrong selects nothing; its Workload is rejected with the reason."""
    try:
        return parse_selector(job.cluster_selector, CLUSTER_SELECTOR)
    except InvalidSelector:
        return LabelSelector(nothing=True)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 <= found < float("inf") else None


def _least_is_best(values: Mapping[str, float | None], unknown: int) -> dict[str, int]:
    """Return 100 for the least value, 0 for the greatest, and in proportion between; 100 for all if they are equal."""
    known = [value for value in values.values() if value is not None]
    least, most = min(known, default=0.0), max(known, default=0.0)
    return {
        name: unknown if value is None else round(_MOST * (most - value) / (most - least)) if most > least else _MOST
        for name, value in values.items()
    }
