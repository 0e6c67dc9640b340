"""What changes for each rule: adds up what was said of traces before and after."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tracegrade.compare.backtest.judged import RuleResult
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tally import NO_RESULTS, Tally
from tracegrade.rule.rule import Rule
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS

Way: TypeAlias = Literal["newly_fails", "newly_passes", "newly_unjudged", "newly_matched", "no_longer_matched"]
WAYS: tuple[Way, ...] = ("newly_fails", "newly_passes", "newly_unjudged", "newly_matched", "no_longer_matched")

MOST_EXAMPLES = 3
"""So many subjects are named of each rule and way."""

NOT_JUDGED = ("", "sampled_out")
"""What is said of a subject that a rule does not match, or that is not in its sample."""

_WORST_FIRST = ("fail", "error", "not_evaluable", "pass", *NOT_JUDGED)
_SIDES: tuple[Literal[0], Literal[1]] = (0, 1)


@dataclass(slots=True)
class Example:
    """A subject of which something else is said now; ``before`` and ``after`` are outcomes, "" where not judged.

    ``number`` is that of its stored trace, or session; ``kind`` and ``subject`` as in `RuleResult`. The explanations
    say why it failed or could not be judged, "" where it passes, or nothing is known.
    """

    number: int
    trace_id: str
    kind: int
    subject: str
    agent: str
    release: str | None
    before: str
    after: str
    explanation_before: str
    explanation: str

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        return {
            "trace_id": self.trace_id,
            "subject": {"kind": SUBJECT_KINDS[self.kind], "id": self.subject},
            "agent": self.agent,
            "release": self.release,
            "before": self.before or None,
            "after": self.after or None,
            "explanation_before": self.explanation_before,
            "explanation": self.explanation,
        }


@dataclass(slots=True)
class BeforeAndAfter:
    """The outcomes on both sides."""

    before: Tally = NO_RESULTS
    after: Tally = NO_RESULTS

    def add(self, side: int, tally: Tally) -> None:
        """Add results of before (0), or of after (1)."""
        if side:
            self.after = self.after.plus(tally)
        else:
            self.before = self.before.plus(tally)


@dataclass(slots=True)
class RuleChange:
    """What changes for one rule.

    ``groups``: the outcomes by agent and release (None: unknown). ``subjects``: how many there are by what was said
    before and after. ``examples``: a few of each way, the newest first.
    """

    rule: Rule
    whole: BeforeAndAfter
    groups: Mapping[tuple[str, str | None], BeforeAndAfter]
    subjects: Mapping[tuple[str, str], int]
    examples: Mapping[Way, Sequence[Example]]

    def changed(self, way: Way) -> int:
        """How many subjects changed this way."""
        return sum(number for words, number in self.subjects.items() if way_of(*words) == way)

    def ending(self, way: Way, word: str) -> int:
        """How many of those have this outcome now; of those no longer matched, had it before."""
        place = 0 if way == "no_longer_matched" else 1
        return sum(number for words, number in self.subjects.items() if way_of(*words) == way and words[place] == word)


def way_of(before: str, after: str) -> Way | None:
    """How a subject changed of which this was said before and after; None when it did not."""
    was, now = before not in NOT_JUDGED, after not in NOT_JUDGED
    if not (was and now):
        return "newly_matched" if now else "no_longer_matched" if was else None
    if before == after:
        return None
    return {"fail": "newly_fails", "pass": "newly_passes"}.get(after, "newly_unjudged")  # type: ignore[return-value]


# Rule, agent, release, probability, whether it counts.
_Group: TypeAlias = tuple[str, str, str | None, float, bool]


@dataclass(slots=True)
class Changes:
    """Adds up what was said, trace by trace.

    ``before`` and ``after`` are the ids of the rules whose results of incomplete traces count on each side.
    """

    before: Collection[str]
    after: Collection[str]
    _groups: tuple[defaultdict[_Group, list[int]], defaultdict[_Group, list[int]]] = field(
        default_factory=lambda: (defaultdict(_none), defaultdict(_none))
    )
    _subjects: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _examples: defaultdict[tuple[str, str, str], list[Example]] = field(default_factory=lambda: defaultdict(list))

    def add(
        self, number: int, trace_id: str, complete: bool, before: Iterable[RuleResult], after: Iterable[RuleResult]
    ) -> None:
        """What was said before and after of one stored trace, or session, with this number and id."""
        known: dict[tuple[str, int, str], list[RuleResult | None]] = {}
        for side, said_of in zip(_SIDES, (before, after), strict=True):
            for said in said_of:
                known.setdefault((said.rule_id, said.kind, said.subject), [None, None])[side] = said
                if said.word not in NOT_JUDGED:
                    counts = complete or said.rule_id in (self.before, self.after)[side]
                    group = (said.rule_id, said.agent, said.release, said.probability, counts)
                    self._groups[side][group][OUTCOMES.index(said.word)] += 1
        for (rule_id, *_), (was, now) in known.items():
            key = (rule_id, was.word if was else "", now.word if now else "")
            self._subjects[key] += 1
            if was != now and way_of(*key[1:]) is not None:
                found = self._examples[key]
                # Keep the newest; nearly all come newest first.
                if len(found) < MOST_EXAMPLES or found[-1].number < number:
                    found.append(_example(number, trace_id, was, now))
                    found.sort(key=lambda example: -example.number)
                    del found[MOST_EXAMPLES:]

    def of(self, rule: Rule) -> RuleChange:
        """What changes for `rule`."""
        groups: defaultdict[tuple[str, str | None], BeforeAndAfter] = defaultdict(BeforeAndAfter)
        whole = BeforeAndAfter()
        for side in _SIDES:
            for (rule_id, agent, release, probability, counts), outcomes in self._groups[side].items():
                if rule_id == rule.id:
                    for both in (whole, groups[agent, release]):
                        both.add(side, Tally.of(*outcomes, weight=1 / probability).counted(counts))
        subjects = {key[1:]: number for key, number in self._subjects.items() if key[0] == rule.id}
        by_size = sorted(groups.items(), key=lambda item: -item[1].after.subjects - item[1].before.subjects)
        return RuleChange(rule, whole, dict(by_size), subjects, {way: self._examples_of(rule.id, way) for way in WAYS})

    def _examples_of(self, rule_id: str, way: Way) -> list[Example]:
        """The worst first: what fails now is looked at before what passes."""
        ended = 1 if way == "no_longer_matched" else 2
        keys = [key for key in self._examples if key[0] == rule_id and way_of(*key[1:]) == way]
        keys.sort(key=lambda key: _WORST_FIRST.index(key[ended]))
        return [example for key in keys for example in self._examples[key]][:MOST_EXAMPLES]


def explain_before(changes: Iterable[RuleChange], explanation: Callable[[RuleChange, Example], str]) -> None:
    """Fill in why the subjects of examples failed before, where that is not known yet."""
    for change in changes:
        for examples in change.examples.values():
            for example in examples:
                if not example.explanation_before and example.before not in ("pass", *NOT_JUDGED):
                    example.explanation_before = explanation(change, example)


def _example(number: int, trace_id: str, was: RuleResult | None, now: RuleResult | None) -> Example:
    known = now or was
    assert known is not None
    return Example(
        number,
        trace_id,
        known.kind,
        known.subject,
        known.agent,
        known.release,
        was.word if was else "",
        now.word if now else "",
        was.explanation if was else "",
        now.explanation if now else "",
    )


def _none() -> list[int]:
    return [0] * len(OUTCOMES)
