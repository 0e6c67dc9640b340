"""The score and the justification of evaluators that compare expected calls one by one with calls made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic

from tracegrade.evaluate.call_facts import positions_of
from tracegrade.evaluate.compare.differences import line, listed_differences, origins_of, paths_of
from tracegrade.evaluate.criteria.expected import Difference
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.json_values import written
from tracegrade.evaluate.pairing.by_name import (
    TOO_MANY,
    ByPosition,
    Found,
    Matches,
    Pair,
    in_step,
    nearest_unpaired,
)
from tracegrade.evaluate.wording import all_of, counted, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
from tracegrade.model.json_value import JsonValue

MAX_EXPLAINED = 200  # expected calls


class CompiledNames:
    """The names of the expected calls: in order, as keys in the details, and where each name stands."""

    __slots__ = ("by_name", "in_step", "keys", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.keys = _keys_of(names)
        self.by_name = positions_of(names)
        self.in_step = Pairing(range(len(names)))  # each with the call at its own place

    @property
    def names_one_twice(self) -> bool:
        """Whether several calls of one tool are expected."""
        return len(self.by_name) < len(self.names)


class CompiledCalls(CompiledNames, Generic[Found]):
    """The expected calls: their names, and what is expected of each.

    ``texts`` are the criteria as the justification shows them, ``wanted`` tell whether what was found is as expected,
    ``differ`` where it is not. ``written`` is the JSON of all criteria, where that of what was found may be the same.
    """

    __slots__ = ("_lines", "_written", "differ", "texts", "wanted")

    def __init__(
        self,
        names: Sequence[str],
        texts: Sequence[str],
        wanted: Sequence[Matches[Found]],
        differ: Sequence[Callable[[Found, Work], Iterator[Difference]]],
        written: bytes | None = None,
    ) -> None:
        super().__init__(names)
        self.texts = texts
        self.wanted = wanted
        self.differ = differ
        self._written = written
        self._lines: dict[str, JsonValue] | None = None

    def explained_to_the_letter(self, found: object) -> dict[str, JsonValue] | None:
        """The justification when what was found of all calls is written as what was expected; None when it is not.

        So are the calls of a run that is judged by those of an earlier one, and they need not be written down again.
        """
        if self._written is None or self._written != written(found):
            return None
        if self._lines is None:
            shown = zip(self.keys, self.texts, strict=True)
            self._lines = {key: line(text, text, 1.0) for key, text in islice(shown, MAX_EXPLAINED)}
        return self._lines


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared of calls.

    ``key`` is the justification's name in the details, ``words`` name it in a sentence, ``root`` is what paths into it
    begin with, and ``shown`` has it, of the calls made, as the justification shows it.
    """

    key: str
    words: str
    root: str
    shown: Callable[[Evidence], Mapping[int, str]]


class Comparison(Generic[Found]):
    """Expected calls (by index) compared with calls made (by position).

    ``found`` is what is compared of the calls made, and ``pairs`` has for each expected call the position of the call
    that is as expected.
    """

    __slots__ = ("_compared", "_evidence", "_expected", "_found", "_pairs", "_work")

    def __init__(
        self, compared: Compared, evidence: Evidence, expected: CompiledCalls[Found], found: ByPosition[Found]
    ) -> None:
        self._compared = compared
        self._evidence = evidence
        self._expected = expected
        self._found = found
        self._work = Work(evidence=evidence)
        self._pairs: Sequence[int | None] = ()

    def score(self, pair: Pair[Found], *, all_or_nothing: bool) -> Score:
        """The share of expected calls that were matched, or 1 when all are, else 0.

        Nothing expected and nothing called is 1; nothing expected and something called is 0.
        """
        names = self._expected.names
        if not names:
            return self._score_nothing_expected()
        wanted, evidence, found = self._expected.wanted, self._evidence, self._found
        if in_step(names, wanted, evidence, found, self._work, steps=1):
            self._pairs = self._expected.in_step.positions
            return Score(1.0, justify=self._justify_all, pairing=self._expected.in_step)
        self._work = Work(evidence=evidence)  # nothing that led nowhere is counted
        pairing = pair(names, wanted, evidence, found, self._work)
        self._pairs, more = pairing.positions, pairing.more
        if None not in self._pairs:
            return Score(1.0, justify=self._justify_all, pairing=pairing)
        matched = len(names) - self._pairs.count(None)
        shown = nearest_unpaired(names, self._evidence, self._pairs)
        differ = listed_differences(self._compared.root, self._failed(shown))
        details: dict[str, JsonValue] = {self._compared.key: self._explained(shown), "differences": differ}
        uncalled = [name for name, position in zip(names, shown, strict=True) if position is None]
        text = self._explain_failed(matched, uncalled, differ)
        of = len(names)
        least, most = (float(part == of) if all_or_nothing else part / of for part in (matched, matched + more))
        at_best, doubt = (most, TOO_MANY) if more else (None, "")
        return Score(least, details, text, at_best=at_best, doubt=doubt, pairing=pairing)

    def _justify_all(self) -> Justification:
        text = f"{all_of(len(self._expected.names), 'expected call')} made with the expected {self._compared.words}."
        lines = self._expected.explained_to_the_letter(self._found) if isinstance(self._pairs, range) else None
        return {self._compared.key: lines or self._explained(self._pairs), "differences": []}, text

    def _score_nothing_expected(self) -> Score:
        calls = len(self._evidence.calls)
        text = "No calls were expected and none were made."
        if calls:
            text = f"No calls were expected, but {counted(calls, 'call')} made."
        return Score(float(not calls), {self._compared.key: {"_result": text}}, text, pairing=self._expected.in_step)

    def _failed(self, shown: Sequence[int | None]) -> Iterator[tuple[str, Iterator[Difference]]]:
        for index, position in enumerate(shown):
            if position is not None and self._pairs[index] is None:
                self._work.position = position
                differ = self._expected.differ[index]
                yield self._expected.keys[index], differ(self._found[position], self._work)

    def _explained(self, shown: Sequence[int | None]) -> dict[str, JsonValue]:
        lines: dict[str, JsonValue] = {}
        texts = self._evidence.once(self._compared.shown)
        for index, key in enumerate(self._expected.keys[:MAX_EXPLAINED]):
            position = shown[index]
            actual = "not called" if position is None else texts[position]
            lines[key] = line(actual, self._expected.texts[index], self._pairs[index] is not None)
        return lines

    def _explain_failed(self, matched: int, uncalled: Sequence[str], found: Sequence[JsonValue]) -> str:
        expected = counted(len(self._expected.names), "expected call")
        reasons = [f"not called often enough: {listed(uncalled)}"] if uncalled else []
        if paths := paths_of(found):
            reasons += [f"not as expected: {listed(paths)}", *origins_of(found)]
        return f"{matched} of {expected} made with the expected {self._compared.words}; {'; '.join(reasons)}."


def _keys_of(names: Sequence[str]) -> list[str]:
    """A key for each expected call: its name and, from 0, which call of that name it is; ``search_1``."""
    seen: dict[str, int] = {}
    keys = []
    for name in names:
        rank = seen.get(name, 0)
        seen[name] = rank + 1
        keys.append(f"{name}_{rank}")
    return keys
