"""Judges stored traces again, from the spans that the store kept: what `compare --rejudge` and backtests share."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from tracegrade.assemble.settings import TracesSettings
from tracegrade.extract.registry import in_force
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.pipeline.workers import PackedTrace, ReplayJob, shown_by_workers, shown_here
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.kept_traces import KeptTrace

T = TypeVar("T")


class KeptEnough:
    """By which attribute filters spans must have been kept, so that these rules can judge them.

    Plain data, so that workers ask it too. What dialects read is kept whatever the rules are.
    """

    def __init__(self, rule_set: RuleSet, settings: TracesSettings, so_far: Iterable[RuleSet] = ()) -> None:
        """Which filters keep what `rule_set` reads: its own, and those of rules `so_far` in force that read as much."""
        dialects = in_force()
        read = rule_set.attributes_read - RuleSet([]).attributes_read - dialects.attributes
        beyond = {name for name in read if not name.startswith(dialects.prefixes)}
        self._hashes: frozenset[str] | None = None
        if beyond:
            filters = (attribute_filter_for(known, settings) for known in (rule_set, *so_far))
            self._hashes = frozenset(found.hash for found in filters if beyond <= found.attributes)

    def says(self, filter_hash: str) -> bool:
        """Whether what was kept by the filter with this hash is enough."""
        return self._hashes is None or filter_hash in self._hashes


def rejudged(kept: Iterable[KeptTrace], job: ReplayJob[T], rule_set: RuleSet, jobs: int) -> Iterator[T]:
    """What `job` shows of stored traces, in their order, judged in `jobs` processes; with 1 in this one.

    The number of a trace is the ``sequence`` of its `JudgedTrace`.

    Raises:
        KeptSpansError: the spans of one are damaged, or were stored by another version.
        WorkerEnded: as `shown_by_workers`.
    """
    packed = (PackedTrace(found.number, found.trace, found.spans, found.span_count) for found in kept)
    return shown_here(packed, job, rule_set) if jobs == 1 else shown_by_workers(packed, job, rule_set, jobs)
