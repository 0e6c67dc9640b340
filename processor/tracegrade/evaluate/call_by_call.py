"""The score and the justification of evaluators that compare expected calls one by one with calls made."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic

from tracegrade.evaluate.calls import all_of, counted, listed, positions_of
from tracegrade.evaluate.data_flow import ANY_TOOL
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.expected import Difference, LookedAt, Lookup
from tracegrade.evaluate.pairing import ByPosition, Found, Matches, Pairing, in_step, nearest_unpaired
from tracegrade.evaluate.values import excerpt, written
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.yaml_file import dotted

MAX_DIFFERENCES = 20  # listed per evaluation
MAX_EXPLAINED = 200  # expected calls
_MAX_TEXT = 200  # characters of a value in a difference
_MAX_ORIGINS = 3  # in a sentence


class ExpectedNames:
    """The names of the expected calls: in order, as keys in the details, and where each name stands."""

    __slots__ = ("by_name", "keys", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.keys = _keys_of(names)
        self.by_name = positions_of(names)


class ExpectedCalls(ExpectedNames, Generic[Found]):
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
        self, compared: Compared, evidence: Evidence, expected: ExpectedCalls[Found], found: ByPosition[Found]
    ) -> None:
        self._compared = compared
        self._evidence = evidence
        self._expected = expected
        self._found = found
        self._work = Work(evidence=evidence)
        self._pairs: Sequence[int | None] = ()

    def score(self, pair: Pairing[Found], *, all_or_nothing: bool) -> Score:
        """The share of expected calls that were matched, or 1 when all are, else 0.

        Nothing expected and nothing called is 1; nothing expected and something called is 0.
        """
        names = self._expected.names
        if not names:
            return self._score_nothing_expected()
        wanted, evidence, found = self._expected.wanted, self._evidence, self._found
        if in_step(names, wanted, evidence, found, self._work, steps=1):
            self._pairs = range(len(names))
            return Score(1.0, justify=self._justify_all)
        self._work = Work(evidence=evidence)  # nothing that led nowhere is counted
        self._pairs = pair(names, wanted, evidence, found, self._work)
        if None not in self._pairs:
            return Score(1.0, justify=self._justify_all)
        matched = len(names) - self._pairs.count(None)
        shown = nearest_unpaired(names, self._evidence, self._pairs)
        differ = listed_differences(self._compared.root, self._failed(shown))
        details: dict[str, JsonValue] = {self._compared.key: self._explained(shown), "differences": differ}
        uncalled = [name for name, position in zip(names, shown, strict=True) if position is None]
        score = 0.0 if all_or_nothing else matched / len(names)
        return Score(score, details, self._explain_failed(matched, uncalled, differ))

    def _justify_all(self) -> Justification:
        text = f"{all_of(len(self._expected.names), 'expected call')} made with the expected {self._compared.words}."
        lines = self._expected.explained_to_the_letter(self._found) if isinstance(self._pairs, range) else None
        return {self._compared.key: lines or self._explained(self._pairs), "differences": []}, text

    def _score_nothing_expected(self) -> Score:
        calls = len(self._evidence.calls)
        text = "No calls were expected and none were made."
        if calls:
            text = f"No calls were expected, but {counted(calls, 'call')} made."
        return Score(float(not calls), {self._compared.key: {"_result": text}}, text)

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


def line(actual: str, expected: str, score: float) -> str:
    """One comparison in the form of UiPath's evaluators."""
    return f"Actual: {actual}, Expected: {expected}, Score: {float(score)}"


def listed_differences(root: str, found: Iterable[tuple[str, Iterator[Difference]]]) -> list[JsonValue]:
    """The first differences of several calls as JSON objects: ``call``, ``path``, ``problem``, ``expected``, ``found``.

    One that expects a value from elsewhere in the run also has ``looked_up``, a list of ``source`` and, of a call,
    ``call`` (its number in the run, from 1), ``tool`` and ``span_id``, with ``value``, or with ``unreadable: true``, or
    with neither where the path leads nowhere; and ``origin``, the same in words without values. ``not_called`` names
    the tools that were not called before, ``scope`` a scope that would have seen them.

    Args:
        root: what paths begin with, such as ``args``.
        found: the key of each call and where it differs; read no further than needed.
    """
    objects: list[JsonValue] = []
    for key, differences in found:
        for difference in differences:
            objects.append(_as_object(root, key, difference))
            if len(objects) == MAX_DIFFERENCES:  # each is work: no further one is looked for
                return objects
    return objects


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
    return shown | looked_up(difference.lookups)


def looked_up(lookups: Sequence[Lookup]) -> dict[str, JsonValue]:
    """What was looked up, for the details of an evaluation; nothing when nothing was."""
    if not lookups:
        return {}
    shown: dict[str, JsonValue] = {
        "looked_up": [_place(at) for lookup in lookups for at in lookup.looked_at],
        "origin": "; ".join(dict.fromkeys(map(origin, lookups))),
    }
    if tools := list(dict.fromkeys(tool for lookup in lookups for tool in lookup.not_called)):
        shown["not_called"] = [*tools]
    if any(lookup.elsewhere for lookup in lookups):
        shown["scope"] = "trace"
    return shown


def _place(at: LookedAt) -> JsonValue:
    shown: dict[str, JsonValue] = {"source": at.source}
    if at.number is not None:
        shown |= {"call": at.number, "tool": at.tool, "span_id": at.span_id}
    if not at.readable:
        shown["unreadable"] = True
    elif at.found:
        shown["value"] = _bounded(at.found[0] if len(at.found) == 1 else [*at.found])
    return shown


def origin(lookup: Lookup) -> str:
    """Why the value is not the one expected, in words that name tools and calls; no values."""
    compared = f" before {listed([lookup.before])}" if lookup.before else ""
    said: list[str] = []
    by_tool: dict[str, list[LookedAt]] = {}
    for at in lookup.looked_at:
        by_tool.setdefault(at.tool, []).append(at)
    for tool, places in by_tool.items():
        if not tool:
            said.append("not in the prompt")
            continue
        numbers = ", ".join(dict.fromkeys(str(at.number) for at in places))
        had = "not what {} had" if any(at.readable for at in places) else "what {} had cannot be read"
        said.append(f"{had.format(listed([tool]))} ({'call' if len(places) == 1 else 'calls'} {numbers})")
    for tool in dict.fromkeys(lookup.not_called):
        name = "no tool" if tool == ANY_TOOL else listed([tool])
        text = f"{name} was {'' if tool == ANY_TOOL else 'not '}called{compared}"
        if (agent := lookup.elsewhere.get(tool)) is not None:
            whose = f"the run of {listed([agent])}" if agent else "another run of the trace"
            text += f" in this run, but {whose} called it: scope: trace sees that"
        said.append(text)
    return ", and ".join(said)


def _bounded(value: JsonValue) -> JsonValue:
    """Scalars of everyday size as they are, all else as an excerpt of its JSON text."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "…"
    if isinstance(value, dict | list) or (isinstance(value, int) and value.bit_length() > 64):
        return excerpt(value, _MAX_TEXT)
    return value


def origins_of(found: Sequence[JsonValue]) -> list[str]:
    """Where values of `listed_differences` were expected from, in words without values: the first few."""
    said = (item["origin"] for item in found if isinstance(item, dict) and item.get("origin"))
    return [str(text) for text in dict.fromkeys(said)][:_MAX_ORIGINS]


def paths_of(found: Sequence[JsonValue]) -> list[str]:
    """`listed_differences` as an explanation names them: which call, which path, what is wrong; no values."""
    return [f"{item['call']} {item['path']} ({item['problem']})" for item in found if isinstance(item, dict)]
