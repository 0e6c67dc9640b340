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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, cast

from tracegrade.evaluate.expected import Path
from tracegrade.evaluate.matcher import Compile, Matcher, refuse_argument
from tracegrade.evaluate.text_matchers import text_of
from tracegrade.evaluate.value_matchers import is_number
from tracegrade.evaluate.values import decoded, json_equal
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

if TYPE_CHECKING:
    from tracegrade.evaluate.evidence import Evidence

Which: TypeAlias = Literal["any", "first", "last"]
_WHICH: tuple[Which, ...] = ("any", "first", "last")

ANY_TOOL = "*"
_SOURCE = re.compile(r"(?P<tool>.+?)\.(?P<part>output|arguments)(?P<path>[.\[].*)?")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\*)\]")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[.,]\d+)*")
_EXPECTED = "'prompt', 'TOOL.output', 'TOOL.output.PATH' or the same with 'arguments'"
# Scripts from here on are written without spaces between words.
_FIRST_UNSPACED = "฀"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value may have come from: the prompt (``tool`` is ""), or a part of the calls of a tool."""

    text: str
    tool: str
    part: Literal["output", "arguments"]
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
        part: Literal["output", "arguments"] = "output" if found["part"] == "output" else "arguments"
        return cls(found.string, found["tool"], part, tuple(steps))

    def available(self, evidence: "Evidence") -> bool:
        """Whether there is anything to compare with: a readable prompt, or a call of the tool with that part."""
        if not self.tool:
            return evidence.prompt is not None
        return any(self.value_of(call) is not None for call in evidence.run_calls if self.is_of(call))

    def is_of(self, call: ToolCall) -> bool:
        """Whether it is a call of the tool that is named."""
        return call.name == self.tool or self.tool == ANY_TOOL

    def value_of(self, call: ToolCall) -> JsonValue:
        """The part of `call`; None when it was not recorded whole."""
        status = call.output_status if self.part == "output" else call.arguments_status
        if status in ("absent", "truncated", "redacted"):
            return None
        return call.output if self.part == "output" else call.arguments


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
        if not source.tool:
            return evidence.prompt is not None and _seen_in(actual, evidence.prompt, work)
        earlier = [call for call in _before(evidence, work) if source.is_of(call)]
        if self._which != "any":
            earlier = earlier[:1] if self._which == "first" else earlier[-1:]
        for call in earlier:
            value = source.value_of(call)
            if isinstance(value, str):
                work.spend(len(value) // CHARACTERS_READ_PER_STEP)
                value = decoded(value)
            for found in _at(value, source.path):
                if _equal(actual, found, work) if source.path else _seen_in(actual, found, work):
                    return True
        return False


def _before(evidence: "Evidence", work: Work) -> Sequence[ToolCall]:
    """The calls of the run before the one that is compared; all, when none is."""
    if work.position is None:
        return evidence.run_calls
    current = evidence.calls[work.position]
    place = evidence.once(_places)[id(current)]
    work.spend(place)
    together = current.batch
    return [
        call
        for call in evidence.run_calls[:place]
        if together is None or call.batch != together or call.agent_span_id != current.agent_span_id
    ]


def _places(evidence: "Evidence") -> dict[int, int]:
    """Where each call stands among the calls of its run, by identity; at the end, if it is none of them."""
    places = {id(call): len(evidence.run_calls) for call in evidence.calls}
    return places | {id(call): place for place, call in enumerate(evidence.run_calls)}


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


def _equal(actual: JsonValue, found: JsonValue, work: Work) -> bool:
    if json_equal(actual, found, work):
        return True
    # Models write numbers as texts, and the other way round.
    if isinstance(actual, str) != isinstance(found, str):
        return (text := text_of(actual)) is not None and text == text_of(found)
    return False


def _seen_in(actual: JsonValue, place: JsonValue, work: Work) -> bool:
    """Whether every scalar of `actual` is seen somewhere in `place`."""
    scalars = list(_scalars(actual))
    return bool(scalars) and all(any(_seen_as(item, leaf, work) for leaf in _scalars(place)) for item in scalars)


def _scalars(value: JsonValue) -> Iterator[str | int | float | bool | None]:
    """Every scalar inside `value`, in order; no recursion."""
    rest: list[Iterable[JsonValue]] = [iter([value])]
    while rest:
        for item in rest[-1]:
            if isinstance(item, dict | list):
                rest.append(iter(item.values() if isinstance(item, dict) else item))
                break
            yield item
        else:
            rest.pop()


def _seen_as(actual: str | int | float | bool | None, leaf: JsonValue, work: Work) -> bool:
    work.spend()
    if actual is None or actual == "":
        return False
    if not isinstance(leaf, str):
        return leaf is not None and _equal(actual, leaf, work)
    work.spend(len(leaf) // CHARACTERS_READ_PER_STEP)
    if isinstance(actual, int | float) and is_number(actual):
        return any(_number(token) == actual for token in _NUMBER.findall(leaf))
    return _holds_words(_folded(leaf), _folded(text_of(actual) or ""))


def _number(token: str) -> int | float | None:
    plain = token.replace(",", "")
    if len(plain) > 1000:
        return None
    return int(plain) if plain.lstrip("-").isdigit() else float(plain) if plain.count(".") == 1 else None


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def _holds_words(text: str, words: str) -> bool:
    """Whether `words` stand in `text` and do not begin or end inside of a longer word or number."""
    at = text.find(words) if words else -1
    while at >= 0:
        end = at + len(words)
        inside = (at > 0 and _joined(text[at - 1], words[0])) or (end < len(text) and _joined(words[-1], text[end]))
        if not inside:
            return True
        at = text.find(words, at + 1)
    return False


def _joined(left: str, right: str) -> bool:
    return left.isalnum() and right.isalnum() and left < _FIRST_UNSPACED and right < _FIRST_UNSPACED
