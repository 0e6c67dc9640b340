"""Judges stored traces again: what `compare --rejudge` and backtests share.

A trace is judged from the spans that the store kept. Where these are damaged, or too few attributes were kept for the
rules, the trace is read again from the journal, if that still holds it; else it is counted as not kept.
"""

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from sqlalchemy import Connection

from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.compare.progress import Progress, ScanProgress
from tracegrade.compare.rejudging.journal_traces import JournalTraces
from tracegrade.compare.store.rejudging import kept_heads, kept_traces
from tracegrade.display import count
from tracegrade.extract.registry import in_force
from tracegrade.journal.errors import JournalNotFound
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.packed import LeftOut, Requirement, Unjudgeable, release_of, service_of
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.pipeline.workers import Packed, ReplayJob, shown_by_workers, shown_here
from tracegrade.rule.reading import RuleReading
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.index import numbers_of
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.rule_texts import rule_sets_so_far
from tracegrade.store.runs import sources_of
from tracegrade.store.schema import LIVE

T = TypeVar("T")
Item = TypeVar("Item")
Key = TypeVar("Key")

# Of so many traces at a time, it is in memory where they are in the journal, and what was said of them before.
_TOGETHER = 10_000
MOST_NAMED = 3
"""So many damaged traces are named for people."""

_FROM_JOURNAL = "journal"  # `Run.source` of a run that was judged from it


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


@dataclass(frozen=True, slots=True)
class Rejudging:
    """The rules that judge again, where they are, the settings that judging reads, and how many processes judge.

    ``data_path`` is the folder whose journal may hold what the store did not keep. ``read``: all rules whose attributes
    must have been kept, where these are more.
    """

    rule_set: RuleSet
    rule_paths: Sequence[str]
    reading: RuleReading
    settings: TracesSettings
    jobs: int
    data_path: Path
    read: RuleSet | None = None

    def only(self, rule_ids: Collection[str]) -> "Rejudging | None":
        """By those rules alone; None when there are none."""
        rules = self.rule_set.only(rule_ids)
        return replace(self, rule_set=rules) if len(rules) else None

    def job(self, run: str, show: Callable[[Judged], T], kept: Requirement[T]) -> ReplayJob[T]:
        """The job of judging so, whose results have the name of this `run`."""
        return ReplayJob(
            self.rule_paths,
            self.reading,
            self.rule_set.hash,
            run,
            self.settings.tool_aliases,
            self.settings.prices,
            show,
            [rule.id for rule in self.rule_set.rules],
            kept,
        )


@dataclass(frozen=True, slots=True)
class ReadFilter:
    """Which traces and sessions are judged again, by what is read of them; None takes all.

    ``service`` is asked of sessions alone: the store knows that of a trace.
    """

    service: str | None = None
    agent: str | None = None
    release: str | None = None

    @property
    def asks(self) -> bool:
        """Whether traces are chosen by what is read of them."""
        return self.agent is not None or self.release is not None

    def takes(self, found: Extraction | Session) -> bool:
        """Whether a trace or session is one of them."""
        if self.service is not None and isinstance(found, Session) and service_of(found) != self.service:
            return False
        of_agent = self.agent is None or any(run.agent == self.agent for run in found.runs)
        return of_agent and (self.release is None or release_of(found) == self.release)

    def left_out(self, found: Unjudgeable) -> LeftOut:
        """What is said of a trace that cannot be judged."""
        return LeftOut(found.of is None or self.takes(found.of), found.lacking, found.problems)


@dataclass(slots=True)
class NotJudged:
    """How many traces, or sessions, were not judged, since what rules read was not kept of them, and why.

    ``why`` says it of the journal, for people. ``damaged``: in which of them stored spans are damaged, and how.
    ``from_journal``: how many others could be judged, since the journal still held them.
    """

    left_out: int = 0
    why: str = ""
    damaged: list[str] = field(default_factory=list)
    from_journal: int = 0


def not_judged_notes(missed: NotJudged, what: str = "trace") -> Iterator[str]:
    """What people have to know about traces, or sessions, that were not judged, or only from the journal."""
    if missed.from_journal:
        yield f"{count(missed.from_journal, what)} read from the journal: the store did not keep what the rules read"
    if missed.left_out:
        yield f"{count(missed.left_out, what)} left out: the store did not keep what the rules read, and {missed.why}"
    for text in missed.damaged[:MOST_NAMED]:
        yield f"cannot be read in the store, left out: {text}"
    if (more := len(missed.damaged) - MOST_NAMED) > 0:
        yield f"and {more:,} more that cannot be read"


class Rejudge(Generic[T]):
    """What judging the traces, or the sessions, of a run again have in common.

    ``not_judged`` says which could not be, once all are done.
    """

    def __init__(
        self,
        connection: Connection,
        chosen: ResultFilter,
        by: Rejudging,
        run: str,
        show: Callable[[Judged], T | LeftOut],
        read: ReadFilter,
    ) -> None:
        """Prepare.

        Args:
            connection: on the store.
            chosen: which traces to read.
            by: by what.
            run: whose results the decisions are.
            show: what to give of what was judged; called by the processes that judge.
            read: which of them are judged.
        """
        self.not_judged = NotJudged()
        self.connection = connection
        self.chosen = chosen
        self.by = by
        needed = by.read or by.rule_set
        enough = KeptEnough(needed, by.settings, rule_sets_so_far(connection))
        kept: Requirement[T | LeftOut] = Requirement(enough.says, read.left_out, read.asks)
        self.job = by.job(run, show, kept)
        self._filter = attribute_filter_for(needed, by.settings)

    def journal(self) -> tuple[JournalTraces | None, str]:
        """The journal, or why there is none."""
        folder, run = self.by.data_path, self.chosen.run
        if run != LIVE and sources_of(self.connection, run) != {_FROM_JOURNAL}:
            return None, f"run {run} was not judged from a journal"
        try:
            return JournalTraces(folder, self.by.settings, self._filter), "the journal no longer holds them"
        except JournalNotFound:
            return None, f"there is no journal in {folder}"

    def shown(self, items: Iterable[tuple[Item, Packed]]) -> Iterator[tuple[Item, T | LeftOut]]:
        """Each item with what was shown of it."""
        under_way: deque[Item] = deque()

        def handed_over() -> Iterator[Packed]:
            for item, packed in items:
                under_way.append(item)
                yield packed

        by = self.by
        if by.jobs == 1:
            found = shown_here(handed_over(), self.job, by.rule_set)
        else:
            found = shown_by_workers(handed_over(), self.job, by.rule_set, by.jobs)
        # In the order in which they were handed over.
        return ((under_way.popleft(), shown) for shown in found)

    def from_journal(
        self,
        lacking: int,
        problems: dict[Key, Sequence[str]],
        key_of: Callable[[Item], Key],
        read: Callable[[JournalTraces], Iterable[tuple[Item, Packed]]],
    ) -> Iterator[tuple[Item, T]]:
        """What was shown of items of which the store kept too little; those that the journal lacks, too, are counted.

        Args:
            lacking: how many they are.
            problems: what is damaged in which of them.
            key_of: its name there.
            read: reads those that the journal still holds.
        """
        if not lacking:
            return
        missed = self.not_judged
        missed.left_out = lacking
        journal, missed.why = self.journal()
        if journal is not None:
            with closing(journal):
                for item, shown in self.shown(read(journal)):
                    if not isinstance(shown, LeftOut):
                        missed.from_journal += 1
                        yield item, shown
                    elif shown.chosen:
                        continue
                    missed.left_out -= 1  # or it is not of the chosen agent or release, which was not known before
                    problems.pop(key_of(item), None)
        missed.damaged = [text for texts in problems.values() for text in texts]


class RejudgeTraces(Rejudge[T]):
    """Judges the stored traces of a run again."""

    def traces(self, label: str, progress: Progress, most: int = 2**62) -> Iterator[tuple[PackedTrace, T]]:
        """Each trace that is chosen, with what was shown of it: newest first, then those read from the journal.

        Args:
            label: of the progress bar.
            progress: shows how far it is.
            most: so many traces are judged at most.

        Raises:
            CannotTell: as `shown_by_workers`.
        """
        looked = ScanProgress(numbers_of(self.connection, self.chosen), most)
        done, lacking = 0, array("q")
        problems: dict[int, Sequence[str]] = {}
        stored = kept_traces(self.connection, self.chosen)
        kept = ((packed._replace(spans=b""), packed._replace(decisions="")) for packed in stored)
        with progress(label, looked.total) as advance:
            for trace, shown in self.shown(kept):
                advance(looked.steps_to(trace.number, done))
                if not isinstance(shown, LeftOut):
                    done += 1
                    yield trace, shown
                elif shown.chosen:
                    lacking.append(trace.number)
                    if shown.problems:
                        problems[trace.number] = shown.problems
                if done >= most:
                    return
        read = partial(self._of_journal, lacking, progress)
        yield from islice(self.from_journal(len(lacking), problems, lambda trace: trace.number, read), most - done)

    def _of_journal(
        self, lacking: Sequence[int], progress: Progress, journal: JournalTraces
    ) -> Iterator[tuple[PackedTrace, PackedTrace]]:
        """The traces with these numbers, as the journal still holds them."""
        for begin in range(0, len(lacking), _TOGETHER):
            wanted = list(kept_heads(self.connection, lacking[begin : begin + _TOGETHER]))
            heads = {head.number: head for head in wanted}
            with progress("journal read: bytes", journal.bytes_of(wanted)) as advance:
                for packed in journal.read(wanted, advance):
                    yield heads[packed.number], packed
