"""What is expected of a value, as a person would say it: ``amount is at least 100 and less than 500``."""

from collections.abc import Callable, Iterator
from typing import Any

from tracegrade.display import json_text
from tracegrade.evaluate.criteria.compile import AllOf
from tracegrade.evaluate.criteria.data_flow import ANY_TOOL, FromMatcher, Source
from tracegrade.evaluate.criteria.expected import Expected, ExpectedList, ExpectedObject, LiteralValue
from tracegrade.evaluate.criteria.matcher import Matcher
from tracegrade.model.json_value import JsonValue

_MAX_SHOWN = 120  # characters of one value
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def members_in_words(path: str, expected: Expected) -> Iterator[str]:
    """Each thing that is expected of what stands at `path`."""
    opened = expected.opened()
    if isinstance(opened, ExpectedObject) and opened.members:
        for name, member in opened.members.items():
            yield f"{path}.{name} {in_words(member)}"
    else:
        yield f"{path} {in_words(expected)}"


def in_words(expected: Expected) -> str:
    """What is expected of a value, to stand after its name: ``is 'refused'``, ``is at least 100``."""
    if isinstance(expected, AllOf):
        return " and ".join(map(in_words, expected.parts()))
    if isinstance(expected, Matcher):
        return _MATCHED[expected.word](expected)
    if isinstance(expected, ExpectedObject) and expected.members:
        members = " and ".join(f"{name} {in_words(member)}" for name, member in expected.members.items())
        return f"is an object whose {members}"
    if isinstance(expected, ExpectedList):
        return f"is a list whose items, in this order: {', '.join(map(in_words, expected.items))}"
    return f"is {_value(expected.source)}"


def _value(value: JsonValue) -> str:
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= _MAX_SHOWN else f"'{value[:_MAX_SHOWN]}…'"
    text = json_text(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def _argument(matcher: Matcher) -> Any:
    source: Any = matcher.source
    return source[matcher.word]


def _case_insensitive(matcher: Matcher) -> str:
    return f"is {_value(_argument(matcher))}, in small letters or capitals"


def _contains(matcher: Matcher) -> str:
    (item,) = matcher.parts()
    if isinstance(item, LiteralValue):
        return f"contains {_value(item.source)}"
    return f"has an item that {in_words(item)}"


def _regex(matcher: Matcher) -> str:
    return f"has a part that matches {_value(_argument(matcher))}"


def _similar(verb: str) -> Callable[[Matcher], str]:
    def words(matcher: Matcher) -> str:
        argument = _argument(matcher)
        return f"{verb} {_value(argument['text'])} (by {argument['at_least']:g} of 1 or more)"

    return words


def _near(matcher: Matcher) -> str:
    argument = _argument(matcher)
    return f"is {_value(argument['value'])}, give or take {argument['epsilon']:g}"


def _bound(words: str) -> Callable[[Matcher], str]:
    return lambda matcher: f"is {words} {_value(_argument(matcher))}"


def _type(matcher: Matcher) -> str:
    argument = _argument(matcher)
    names = argument if isinstance(argument, list) else [argument]
    return f"is {' or '.join(_TYPES[name] for name in names)}"


def _length(matcher: Matcher) -> str:
    (length,) = matcher.parts()
    return f"has a length that {in_words(length)}"


def _one_of(matcher: Matcher) -> str:
    choices = list(matcher.parts())
    if all(isinstance(choice, LiteralValue) for choice in choices):
        return f"is {' or '.join(_value(choice.source) for choice in choices)}"
    return " or ".join(map(in_words, choices))


def _from(matcher: Matcher) -> str:
    argument = _argument(matcher)
    which = argument.get("call", "any") if isinstance(argument, dict) else "any"
    assert isinstance(matcher, FromMatcher)
    return f"is {' or '.join(_source(source, which) for source in matcher.sources)}"


def _source(source: Source, which: str) -> str:
    if not source.tool:
        return "in the prompt"
    tool = "call" if source.tool == ANY_TOOL else source.tool
    call = f"the {which} {tool} before" if which != "any" else f"any earlier {tool}"
    did = "returned" if source.part == "output" else "was given"
    if not source.path:
        return f"in what {call} {did}"
    path = "".join(f"[{step}]" if step == "*" or isinstance(step, int) else f".{step}" for step in source.path)
    return f"what {call} {did} as {path.removeprefix('.')}"


_MATCHED: dict[str, Callable[[Matcher], str]] = {
    "$case_insensitive": _case_insensitive,
    "$contains": _contains,
    "$regex": _regex,
    "$glob": lambda matcher: f"fits the glob {_value(_argument(matcher))}",
    "$similarity": _similar("is written like"),
    "$semantic": _similar("means what is said by"),
    "$numeric_tolerance": _near,
    "$gte": _bound("at least"),
    "$gt": _bound("more than"),
    "$lte": _bound("at most"),
    "$lt": _bound("less than"),
    "$type": _type,
    "$length": _length,
    "$schema": lambda matcher: f"is valid by the JSON Schema {_value(_argument(matcher))}",
    "$secret": lambda matcher: "has a part that is a secret",
    "$one_of": _one_of,
    "$any": lambda matcher: "is there",
    "$absent": lambda matcher: "is not there",
    "$from": _from,
}
