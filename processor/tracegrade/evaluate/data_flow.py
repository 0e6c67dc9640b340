"""``$from``: the value came from the prompt, or from an earlier call of the same run.

A source is ``prompt``, ``TOOL.output``, ``TOOL.output.PATH`` or the same with ``arguments``; the tool ``*`` is any, for
rules that do not know the tools, and then no path may follow; a path is ``.member``,
``[0]`` and ``[*]`` for every item. With a path, the value is equal to what stands there (a number equals its text).
Without, it is seen anywhere in it: equal to a value at any depth, or a part of a text as whole words or a whole number,
letter case and white space aside. Of a list or object every scalar must be seen. Null and the empty text are seen
nowhere.

Earlier calls are those before this one in the run's order that were not made together with it; any of them counts,
unless ``call`` says ``first`` or ``last``.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, cast

from tracegrade.evaluate.expected import Path
from tracegrade.evaluate.matcher import Compile, Matcher, refuse_argument
from tracegrade.evaluate.seen import SeenAnywhere, SeenAsWhole
from tracegrade.evaluate.values import decoded
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

if TYPE_CHECKING:
    from tracegrade.evaluate.evidence import Evidence

Which: TypeAlias = Literal["any", "first", "last"]
_WHICH: tuple[Which, ...] = ("any", "first", "last")
Part: TypeAlias = Literal["output", "arguments"]
_PARTS: tuple[Part, ...] = ("output", "arguments")
Span: TypeAlias = tuple[int, int]  # of places: from, up to

ANY_TOOL = "*"
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

    def available(self, evidence: "Evidence") -> bool:
        """Whether there is anything to compare with: a readable prompt, or a call of the tool with that part."""
        if not self.tool:
            return evidence.prompt is not None
        return (self.tool, self.part) in evidence.run.once(_recorded)


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

    def lack(self, evidence: "Evidence") -> str | None:
        """Why nothing can be compared with: no source is there at all; None when one is."""
        if any(source.available(evidence) for source in self.sources):
            return None
        named = " or ".join(source.text for source in self.sources)
        return f"an expected value comes from {named}, which was not recorded"

    def matches(self, actual: JsonValue, work: Work) -> bool:
        """Whether `actual` was seen in one of the sources before the call that is being compared."""
        if work.evidence is None:
            return False
        return any(self._seen(actual, source, work.evidence, work) for source in self.sources)

    def _seen(self, actual: JsonValue, source: Source, evidence: "Evidence", work: Work) -> bool:
        run = evidence.run.once(_Run)
        if not source.tool:
            return evidence.prompt is not None and run.of_prompt(evidence.prompt).first(actual, 0, 1, work) == 0
        spans = run.before(None if work.position is None else evidence.calls[work.position])
        seen = run.of_source(source)
        if self._which != "any":
            spans = _only(self._which, seen.calls, spans)
        return any(seen.first(actual, start, end, work) < end for start, end in spans)


def _only(which: Which, calls: Sequence[int], spans: Sequence[Span]) -> list[Span]:
    """The first or the last of `calls` that stands in one of `spans`, as the one span it is."""
    for start, end in spans if which == "first" else reversed(spans):
        within = calls[bisect_left(calls, start) : bisect_left(calls, end)]
        if within:
            place = within[0 if which == "first" else -1]
            return [(place, place + 1)]
    return []


class _Run:
    """What the calls of a run hold, by their places in its order.

    Every part is read once, for all values that are looked for, when the first is: so a value costs the same however
    many calls came before. Reading is no work of an evaluation, which must not depend on what was judged before it.
    """

    __slots__ = ("_calls", "_places", "_prompts", "_sources", "_together")

    def __init__(self, run: "Evidence") -> None:
        self._calls = run.calls
        self._places = {id(call): place for place, call in enumerate(run.calls)}
        self._together: dict[tuple[int, str], list[Span]] = {}
        for place, call in enumerate(run.calls):
            if call.batch is not None:
                spans = self._together.setdefault((call.batch, call.agent_span_id), [])
                begin = spans.pop()[0] if spans and spans[-1][1] == place else place
                spans.append((begin, place + 1))
        self._prompts: dict[str, SeenAnywhere] = {}
        self._sources: dict[Source, SeenAnywhere | SeenAsWhole] = {}

    def before(self, current: ToolCall | None) -> list[Span]:
        """Where the calls stand that came before `current` and were not made together with it; all, when it is None."""
        if current is None:
            return [(0, len(self._calls))]
        last = self._places.get(id(current), len(self._calls))
        spans = []
        start = 0
        if current.batch is not None:
            for begin, end in self._together.get((current.batch, current.agent_span_id), ()):
                if begin >= last:
                    break
                spans.append((start, begin))
                start = end
        return [(start, end) for start, end in [*spans, (start, last)] if start < end]

    def of_prompt(self, prompt: str) -> SeenAnywhere:
        """What is seen in a prompt, at place 0."""
        if (seen := self._prompts.get(prompt)) is None:
            seen = self._prompts[prompt] = SeenAnywhere([0], [(0, prompt)])
        return seen

    def of_source(self, source: Source) -> "SeenAnywhere | SeenAsWhole":
        """What is seen in the calls of `source`."""
        if (seen := self._sources.get(source)) is None:
            calls = [
                place for place, call in enumerate(self._calls) if source.tool == ANY_TOOL or call.name == source.tool
            ]
            values = [(place, _decoded(_part(self._calls[place], source.part))) for place in calls]
            if source.path:
                seen = SeenAsWhole(calls, [(place, list(_at(value, source.path))) for place, value in values])
            else:
                seen = SeenAnywhere(calls, values)
            self._sources[source] = seen
        return seen


def _recorded(run: "Evidence") -> set[tuple[str, Part]]:
    """The tools of which a call's part was recorded whole, and which part; of any tool too."""
    recorded = [(call.name, part) for call in run.calls for part in _PARTS if _part(call, part) is not None]
    return {(tool, part) for name, part in recorded for tool in (name, ANY_TOOL)}


def _part(call: ToolCall, part: Part) -> JsonValue:
    """The part of `call`; None when it was not recorded whole."""
    status = call.output_status if part == "output" else call.arguments_status
    if status in ("absent", "truncated", "redacted"):
        return None
    return call.output if part == "output" else call.arguments


def _decoded(value: JsonValue) -> JsonValue:
    return decoded(value) if isinstance(value, str) else value


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
