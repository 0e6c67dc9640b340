"""``$from``: the value came from the prompt, or from an earlier call of the same run.

A source is ``prompt``, ``TOOL.output``, ``TOOL.output.PATH`` or the same with ``arguments``; the tool ``*`` is any, for
rules that do not know the tools, and then no path may follow; a path is ``.member``,
``[0]`` and ``[*]`` for every item. With a path, the value is equal to what stands there (a number equals its text).
Without, it is seen anywhere in it: equal to a value at any depth, or a part of a text as whole words or a whole number,
ignoring letter case and white space. Of a list or object every scalar must be seen. Null and the empty text are seen
nowhere.

Earlier calls are those before this one in the run's order that were not made together with it, and those that may have
come before it, since nothing tells (`call_order`); any of them counts, unless ``call`` says ``first`` or ``last``.

A value that no readable source holds came from nowhere, unless a source cannot be read: the prompt, a part that was
not recorded, cut off, masked, or is a text where a path leads into it (without a path a text is searched), or a call
whose tool's name cannot be read. Then it is unknown whether it is met. A failed call without an output gave nothing,
and that is known.

Worked example: ``id: {$from: find.output.id}`` is expected of pay. The run calls find (its output is ``{"id": 7}``),
then find (``{"id": 8}``) and ``pay(id: 8)`` together, then ``pay(id: "8")``.

- The first pay is not met: the find that gave 8 was asked for by the same message, so the model had not seen it. The
  one source before it gave 7.
- The second pay is met: both finds came before it, and a number equals its text. With ``call: first`` it is not: the
  first find gave 7.
- Had the output of the first find been cut off, the first pay could be right: whether it is met is unknown.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias, cast

from tracegrade.evaluate.criteria.expected import Lookup, LookupPlace, Path
from tracegrade.evaluate.criteria.matcher import Compile, Matcher, refuse_argument
from tracegrade.evaluate.criteria.occurrences import ScalarIndex, WholeValueIndex, may_be_seen
from tracegrade.evaluate.json_values import decoded
from tracegrade.evaluate.timeline import Stretch, Timeline
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_hash, holds_mask, holds_plain, is_masked, may_hide, without_masks
from tracegrade.model.tool_call import ValueStatus
from tracegrade.model.tri import Tri, Unknown

if TYPE_CHECKING:
    from tracegrade.evaluate.evidence import Evidence

Which: TypeAlias = Literal["any", "first", "last"]
_WHICH: tuple[Which, ...] = ("any", "first", "last")
Part: TypeAlias = Literal["output", "arguments"]
_PARTS: tuple[Part, ...] = ("output", "arguments")

ANY_TOOL = "*"
_STEPS_OF_A_LOOK = 20  # of one source
_SHOWN = 3  # calls of a source that were looked at
_SOURCE = re.compile(r"(?P<tool>.+?)\.(?P<part>output|arguments)(?P<path>[.\[].*)?")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\*)\]")
_EXPECTED = "'prompt', 'TOOL.output', 'TOOL.output.PATH' or the same with 'arguments'"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value may have come from: the prompt (``tool`` is ""), or a part of the calls of a tool."""

    text: str
    tool: str
    part: Part
    path: tuple[str | int, ...]  # "*" is every item or member

    @classmethod
    def read(cls, text: JsonValue, path: Path) -> Self:
        """Read a source.

        Raises:
            MatcherError: `text` is none.
        """
        if text == "prompt":
            return cls("prompt", "", "output", ())
        found = _SOURCE.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            refuse_argument(path, _EXPECTED, text)
        steps: list[str | int] = []
        rest = found["path"] or ""
        at = 0
        while at < len(rest):
            step = _STEP.match(rest, at)
            if step is None:
                refuse_argument(path, f"{_EXPECTED}, where PATH is .member, [0] or [*]", text)
            at = step.end()
            steps.append(step[1] if step[1] is not None else "*" if step[2] == "*" else int(step[2]))
        if found["tool"] == ANY_TOOL and steps:
            refuse_argument(path, f"'{ANY_TOOL}.output' or '{ANY_TOOL}.arguments' without a path", text)
        part: Part = "output" if found["part"] == "output" else "arguments"
        return cls(found.string, found["tool"], part, tuple(steps))

    def in_words(self, which: Which) -> str:
        """The source, of the first, the last or any call of its tool."""
        if not self.tool:
            return "in the prompt"
        tool = "call" if self.tool == ANY_TOOL else self.tool
        call = f"the {which} {tool} before" if which != "any" else f"any earlier {tool}"
        did = "returned" if self.part == "output" else "was given"
        if not self.path:
            return f"in what {call} {did}"
        path = "".join(f"[{step}]" if step == "*" or isinstance(step, int) else f".{step}" for step in self.path)
        return f"what {call} {did} as {path.removeprefix('.')}"

    def holds(self, value: JsonValue) -> list[JsonValue]:
        """What stands at the path of a call's part; several with ``*``, nothing where it leads nowhere."""
        return list(_at(value, self.path))


class FromMatcher(Matcher):
    """``$from``: seen before, in a source that is named."""

    word = "$from"
    argument = "source, list of sources, or {source, call}"
    summary = (
        "it came from `prompt`, or from an earlier call: `TOOL.output.PATH`, `TOOL.output`, `TOOL.arguments.PATH`, "
        "`*.output` of any tool; "
        "`call`: `any` (default), `first` or `last`"
    )
    __slots__ = ("_which", "sources")

    def __init__(self, argument: JsonValue, sources: list[Source], which: Which) -> None:
        super().__init__(argument)
        self.sources = sources
        self._which = which

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        which: JsonValue = "any"
        written = argument
        if isinstance(argument, dict):
            if "source" not in argument or not argument.keys() <= {"source", "call"}:
                refuse_argument(path, "a source, a list of them, or {source: ..., call: any|first|last}", argument)
            which, written = argument.get("call", "any"), argument["source"]
            if which not in _WHICH:
                refuse_argument((*path, "call"), "any, first or last", which)
        sources = [Source.read(item, path) for item in (written if isinstance(written, list) else [written])]
        if not sources:
            refuse_argument(path, "at least one source", argument)
        return cls(argument, sources, cast(Which, which))

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"is {' or '.join(source.in_words(self._which) for source in self.sources)}"

    @property
    def looks_at_one(self) -> bool:
        """Whether it looks at the first or the last call of a source alone, so that another call may take its place."""
        return self._which != "any"

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` was seen in one of the sources before the call that is being compared."""
        evidence = work.evidence
        if evidence is None:
            return False
        work.spend(_STEPS_OF_A_LOOK * len(self.sources))
        if evidence.redacted and holds_mask(actual):
            return work.unknown_value(actual)
        if any(self._is_source_of(actual, source, evidence, work) for source in self.sources):
            return True
        return self._may_come_from(actual, evidence, work.position)

    def _may_come_from(self, actual: JsonValue, evidence: "Evidence", position: int | None) -> Tri:
        """Unknown if `actual`, which was seen in no source, may come from what cannot be read of one; else no."""
        for source in () if evidence.as_given else self.sources:
            if (source.path or may_be_seen(actual)) and (
                unknown := self._unreadable(source, evidence, position)
            ) is not None:
                return unknown._replace(source=source.text)
            if evidence.redacted and self._may_hide(actual, source, evidence, position):
                return Unknown("hashed", source.part if source.tool else "prompt", source=source.text)
        return False

    def _may_hide(self, actual: JsonValue, source: Source, evidence: "Evidence", position: int | None) -> bool:
        """Whether `actual` may be what a source holds though it looks otherwise: one of them was hashed alone."""
        hashed, plain = holds_hash(actual), holds_plain(actual)
        return any(
            (plain and holds_hash(value)) or (hashed and holds_plain(value))
            for value in self._held(source, evidence, position)
        )

    def _held(self, source: Source, evidence: "Evidence", position: int | None) -> Iterator[JsonValue]:
        """The values that stand in a source."""
        if not source.tool:
            yield evidence.prompt
            return
        for place in self._places(source, evidence, position):
            yield from source.holds(evidence.run.once(_Run).known(source, place))

    def stands_in(self, text: str, work: Work) -> Tri:
        """Whether a value that one of the sources holds is seen in `text`, as whole words or a whole number."""
        if (evidence := work.evidence) is None:
            return False
        seen = ScalarIndex([0], [(0, text)])
        for source in self.sources:
            for place in self._places(source, evidence, work.position):
                held = source.holds(evidence.run.once(_Run).known(source, place))
                if any(seen.first(value, 0, 1, work) == 0 for value in held):
                    return True
        return self._may_come_from(text, evidence, work.position)

    def _places(self, source: Source, evidence: "Evidence", position: int | None) -> list[int]:
        """The calls of a source that can be read and may be meant."""
        run = evidence.run.once(_Run).of(source)
        calls = [place for span in self._candidates(source, evidence, position) for place in _within(run.calls, span)]
        return [place for place in calls if _index(run.unreadable, place) is None]

    def lookups(self, work: Work) -> Iterator[Lookup]:
        """What was looked up for the call that is being compared."""
        if work.evidence is not None:
            yield self._looked_up(work.evidence, work.position)

    def _is_source_of(self, actual: JsonValue, source: Source, evidence: "Evidence", work: Work) -> bool:
        if not source.tool:
            if evidence.prompt is None:
                return False
            prompt = str(without_masks(evidence.prompt)) if evidence.redacted else evidence.prompt
            return evidence.run.once(_Prompts).seen(prompt).first(actual, 0, 1, work) == 0
        seen = evidence.run.once(_Run).of(source)
        spans = self._candidates(source, evidence, work.position)
        return any(seen.values.first(actual, start, end, work) < end for start, end in spans)

    def _candidates(self, source: Source, evidence: "Evidence", position: int | None) -> Sequence[Stretch]:
        """Where the calls stand that may be the source of a value of the call at `position`."""
        run = evidence.run
        timeline = run.once(Timeline)
        certain, possible = timeline.before(None if position is None else evidence.calls[position])
        if self._which == "any":
            return [*certain, *possible]
        calls = run.once(_Run).of(source).calls
        if self._which == "first":
            found = next((place for span in certain for place in _within(calls, span)[:1]), None)
            return possible if found is None else _common(timeline.tied_with(found), certain)
        found = next((place for span in reversed(certain) for place in _within(calls, span)[-1:]), None)
        return [*possible, *(_common(timeline.tied_with(found), certain) if found is not None else ())]

    def _unreadable(self, source: Source, evidence: "Evidence", position: int | None) -> Unknown | None:
        """What cannot be read of a source, None where all can."""
        if not source.tool:
            if evidence.prompt is None:
                return Unknown("absent", "prompt")
            return Unknown("masked", "prompt") if evidence.redacted and is_masked(evidence.prompt) else None
        run = evidence.run.once(_Run)
        for span in self._candidates(source, evidence, position) if run.of(source).unreadable else ():
            for place in _within(run.of(source).unreadable, span)[:1]:
                return run.why_unreadable(source, place)
        if run.nameless and source.tool != ANY_TOOL:
            certain, possible = evidence.run.once(Timeline).before(
                None if position is None else evidence.calls[position]
            )
            for span in (*certain, *possible):
                for place in _within(run.nameless, span)[:1]:
                    return Unknown("absent", "earlier_name", span_id=run.calls[place].span_id)
        if evidence.trace_context is not None:
            call = None if position is None else evidence.calls[position]
            if (work := evidence.trace_context.unread_before(call)) is not None:
                return Unknown("unread", span_id=work.span_id, said=work.sentence)
        return None

    def _looked_up(self, evidence: "Evidence", position: int | None) -> Lookup:
        looked: list[LookupPlace] = []
        not_called: list[str] = []
        run = evidence.run.once(_Run)
        current = None if position is None else evidence.calls[position]
        for source in self.sources:
            if not source.tool:
                looked.append(LookupPlace(source.text, found=[] if evidence.prompt is None else [evidence.prompt]))
                continue
            seen = run.of(source)
            spans = self._candidates(source, evidence, position)
            # The nearest first: of many, those that a reader wants to see.
            near = [
                place for span in reversed(sorted(spans)) for place in reversed(_within(seen.calls, span)[-_SHOWN:])
            ]
            for place in near[:_SHOWN]:
                call = run.calls[place]
                readable = _index(seen.unreadable, place) is None
                value = run.known(source, place)
                held = source.holds(value) if readable and value is not None else []
                looked.append(LookupPlace(source.text, place + 1, call.name, call.span_id, held, readable))
            if not near:
                not_called.append(source.tool)
        elsewhere: dict[str, str] = {}
        if evidence.trace_context is not None and current is not None:
            for tool in not_called:
                if (agent := evidence.trace_context.agent_that_called(tool, current)) is not None:
                    elsewhere[tool] = agent
        return Lookup(looked, not_called, "" if current is None else current.name, elsewhere)


def _within(places: Sequence[int], span: Stretch) -> Sequence[int]:
    """Those of `places`, which ascend, that are in the span."""
    return places[bisect_left(places, span[0]) : bisect_left(places, span[1])]


def _index(places: Sequence[int], place: int) -> int | None:
    at = bisect_left(places, place)
    return at if at < len(places) and places[at] == place else None


def _common(spans: Sequence[Stretch], others: Sequence[Stretch]) -> list[Stretch]:
    """What is in spans of both."""
    pairs = ((max(a, c), min(b, d)) for a, b in spans for c, d in others)
    return [(start, end) for start, end in pairs if start < end]


class _Prompts(dict[str, ScalarIndex]):
    """What is seen in a prompt, at place 0."""

    def __init__(self, run: "Evidence") -> None:
        super().__init__()

    def seen(self, prompt: str) -> ScalarIndex:
        """What is seen in `prompt`."""
        if (seen := self.get(prompt)) is None:
            seen = self[prompt] = ScalarIndex([0], [(0, prompt)])
        return seen


class _Part(NamedTuple):
    """A source's calls by their places, which of them cannot be read, and what is seen in the others."""

    calls: Sequence[int]
    unreadable: Sequence[int]
    values: ScalarIndex | WholeValueIndex


class _Run:
    """What the calls of a run hold, by their places in its order.

    Every part is read once, for all values that are looked for, when the first is: so a value costs the same however
    many calls came before. Each evaluation counts the steps of reading, whatever was judged before it.
    """

    __slots__ = ("_parts", "_redacted", "calls", "nameless")

    def __init__(self, run: "Evidence") -> None:
        self.calls = run.calls
        self._redacted = run.redacted
        self.nameless = [place for place, call in enumerate(run.calls) if not call.name]
        self._parts: dict[Source, _Part] = {}

    def of(self, source: Source) -> _Part:
        """What is seen in the calls of `source`."""
        if (found := self._parts.get(source)) is None:
            calls = [
                place for place, call in enumerate(self.calls) if source.tool == ANY_TOOL or call.name == source.tool
            ]
            unreadable = [place for place in calls if self._status(source, place) is not None]
            values = [(place, self.known(source, place)) for place in calls]
            if source.path:
                seen: ScalarIndex | WholeValueIndex = WholeValueIndex(
                    calls, [(place, source.holds(value)) for place, value in values]
                )
            else:
                seen = ScalarIndex(calls, values)
            found = self._parts[source] = _Part(calls, unreadable, seen)
        return found

    def known(self, source: Source, place: int) -> JsonValue:
        """What can be read of the source's part of a call, None where nothing can."""
        call = self.calls[place]
        if self._lack(source, place) is not None:
            return None
        value = _decoded(call.output if source.part == "output" else call.arguments)
        return without_masks(value) if self._redacted else value

    def why_unreadable(self, source: Source, place: int) -> Unknown:
        """Why the source's part of the call at `place` cannot be read."""
        call = self.calls[place]
        status = self._status(source, place) or "absent"
        # Named by its tool and span: its place is one in the run, not among the calls that are judged.
        return Unknown("no_path" if status == "text" else status, source.part, None, call.name, call.span_id)

    def _status(self, source: Source, place: int) -> ValueStatus | None:
        """The status for which a value may come from the source's part of a call though it is not seen there."""
        if (lack := self._lack(source, place)) is not None:
            return lack
        call = self.calls[place]
        given, status = (
            (call.output, call.output_status) if source.part == "output" else (call.arguments, call.arguments_status)
        )
        if self._redacted and _hides(_decoded(given), source.path):
            return "redacted"
        return "text" if status == "text" and source.path and isinstance(_decoded(given), str) else None

    def _lack(self, source: Source, place: int) -> ValueStatus | None:
        """The status for which nothing can be read of the source's part of a call."""
        lack = self.calls[place].lack_of(source.part, in_part=self._redacted)
        return None if lack == "text" else lack


def _decoded(value: JsonValue) -> JsonValue:
    return decoded(value) if isinstance(value, str) else value


def _hides(value: JsonValue, path: tuple[str | int, ...]) -> bool:
    """Whether something that was masked or dropped stood at `path`, in what stands there, or on the way to it."""
    if not path:
        return holds_mask(value)
    found = list(_at(value, path[:1]))
    if (path[0] == "*" or not found) and may_hide(value, path[0]):
        return True
    return any(_hides(inner, path[1:]) for inner in found)


def _at(value: JsonValue, path: tuple[str | int, ...]) -> Iterator[JsonValue]:
    """What stands at `path` in `value`; several with ``*``, nothing where the path leads nowhere."""
    if not path:
        yield value
        return
    step, rest = path[0], path[1:]
    if step == "*" and isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _at(item, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield from _at(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from _at(value[step], rest)
