"""The score and the justification of evaluators that compare expected calls one by one with calls made."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar

from tracegrade.evaluate.calls import all_of, counted, listed, positions_of
from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.expected import Difference
from tracegrade.evaluate.pairing import Pairing, nearest_unpaired
from tracegrade.evaluate.values import excerpt
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.yaml_file import dotted

MAX_DIFFERENCES = 20  # listed per evaluation
MAX_EXPLAINED = 200  # expected calls
_MAX_TEXT = 200  # characters of a value in a difference


class ExpectedNames:
    """The names of the expected calls: in order, as keys in the details, and where each name stands."""

    __slots__ = ("by_name", "keys", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.keys = _keys_of(names)
        self.by_name = positions_of(names)


class Comparison(ABC):
    """Expected calls (by index) compared with calls made (by position).

    A subclass says what satisfies what. ``key`` is the justification's name in the details, ``compared`` what is
    compared, in words, and ``root`` what paths into it begin with; ``shown`` is that of the calls made, as the
    justification shows it, and ``pairs`` has for each expected call the position of the call that satisfies it.
    """

    key: ClassVar[str]
    compared: ClassVar[str]
    root: ClassVar[str]
    __slots__ = ("evidence", "expected", "pairs", "shown", "work")

    def __init__(self, evidence: Evidence, expected: ExpectedNames, shown: Mapping[int, str]) -> None:
        self.evidence = evidence
        self.expected = expected
        self.shown = shown
        self.work = Work(evidence=evidence)
        self.pairs: Sequence[int | None] = ()

    @abstractmethod
    def satisfied(self, index: int, position: int) -> bool:
        """Whether the expected call is satisfied by the call made.

        Raises:
            EvaluatorError: ``work_bound``.
        """

    @abstractmethod
    def shown_expected(self, index: int) -> str:
        """What is expected, as the justification shows it."""

    @abstractmethod
    def differences(self, index: int, position: int) -> Iterator[Difference]:
        """Where the call made is not as expected.

        Raises:
            EvaluatorError: ``work_bound``.
        """

    def score(self, pair: Pairing, *, all_or_nothing: bool) -> Score:
        """The share of expected calls that were satisfied, or 1 when all are, else 0.

        Nothing expected and nothing called is 1; nothing expected and something called is 0.
        """
        names = self.expected.names
        if not names:
            return self._score_nothing_expected()
        self.pairs = pair(names, self.evidence, self.satisfied, self.work)
        if None not in self.pairs:
            text = f"{all_of(len(names), 'expected call')} made with the expected {self.compared}."
            return Score(1.0, {self.key: self._explained(self.pairs), "differences": []}, text)
        matched = len(names) - self.pairs.count(None)
        shown = nearest_unpaired(names, self.evidence, self.pairs)
        found = listed_differences(self.root, self._failed(shown))
        details: dict[str, JsonValue] = {self.key: self._explained(shown), "differences": found}
        uncalled = [name for name, position in zip(names, shown, strict=True) if position is None]
        score = 0.0 if all_or_nothing else matched / len(names)
        return Score(score, details, self._explain_failed(matched, uncalled, found))

    def _score_nothing_expected(self) -> Score:
        calls = len(self.evidence.calls)
        text = "No calls were expected and none were made."
        if calls:
            text = f"No calls were expected, but {counted(calls, 'call')} made."
        return Score(float(not calls), {self.key: {"_result": text}}, text)

    def _failed(self, shown: Sequence[int | None]) -> Iterator[tuple[str, Iterator[Difference]]]:
        for index, position in enumerate(shown):
            if position is not None and self.pairs[index] is None:
                self.work.position = position
                yield self.expected.keys[index], self.differences(index, position)

    def _explained(self, shown: Sequence[int | None]) -> dict[str, JsonValue]:
        lines: dict[str, JsonValue] = {}
        for index, key in enumerate(self.expected.keys[:MAX_EXPLAINED]):
            position = shown[index]
            actual = "not called" if position is None else self.shown[position]
            lines[key] = line(actual, self.shown_expected(index), self.pairs[index] is not None)
        return lines

    def _explain_failed(self, matched: int, uncalled: Sequence[str], found: Sequence[JsonValue]) -> str:
        expected = counted(len(self.expected.names), "expected call")
        reasons = [f"not called often enough: {listed(uncalled)}"] if uncalled else []
        if paths := paths_of(found):
            reasons.append(f"not as expected: {listed(paths)}")
        return f"{matched} of {expected} made with the expected {self.compared}; {'; '.join(reasons)}."


def _keys_of(names: Sequence[str]) -> list[str]:
    """A key for each expected call: its name and, from 0, which call of that name it is; ``search_1``."""
    seen: dict[str, int] = {}
    keys = []
    for name in names:
        rank = seen.get(name, 0)
        seen[name] = rank + 1
        keys.append(f"{name}_{rank}")
    return keys


def line(actual: str, expected: str, score: float) -> str:
    """One comparison in the form of UiPath's evaluators."""
    return f"Actual: {actual}, Expected: {expected}, Score: {float(score)}"


def listed_differences(root: str, found: Iterable[tuple[str, Iterator[Difference]]]) -> list[JsonValue]:
    """The first differences of several calls as JSON objects: ``call``, ``path``, ``problem``, ``expected``, ``found``.

    Args:
        root: what paths begin with, such as ``args``.
        found: the key of each call and where it differs; read no further than needed.
    """
    objects = (_as_object(root, key, difference) for key, differences in found for difference in differences)
    return list(islice(objects, MAX_DIFFERENCES))


def _as_object(root: str, key: str, difference: Difference) -> JsonValue:
    shown: dict[str, JsonValue] = {
        "call": key,
        "path": dotted((root, *difference.path)),
        "problem": difference.problem,
    }
    if difference.problem != "unexpected":
        shown["expected"] = _bounded(difference.expected)
    if difference.problem != "missing":
        shown["found"] = _bounded(difference.found)
    return shown


def _bounded(value: JsonValue) -> JsonValue:
    """Scalars of everyday size as they are, all else as an excerpt of its JSON text."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "…"
    if isinstance(value, dict | list) or (isinstance(value, int) and value.bit_length() > 64):
        return excerpt(value, _MAX_TEXT)
    return value


def paths_of(found: Sequence[JsonValue]) -> list[str]:
    """`listed_differences` as an explanation names them: which call, which path, what is wrong; no values."""
    return [f"{item['call']} {item['path']} ({item['problem']})" for item in found if isinstance(item, dict)]
