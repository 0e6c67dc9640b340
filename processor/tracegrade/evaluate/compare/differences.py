"""Differences between expected and actual values, as details and explanations show them."""

from collections.abc import Iterable, Iterator, Sequence

from tracegrade.document.problem import dotted
from tracegrade.evaluate.criteria.data_flow import ANY_TOOL
from tracegrade.evaluate.criteria.expected import Difference, Lookup, LookupPlace
from tracegrade.evaluate.json_values import excerpt
from tracegrade.evaluate.wording import listed
from tracegrade.model.json_value import JsonValue

MAX_EXPLAINED = 200  # expected calls of one evaluation
MAX_DIFFERENCES = 20  # listed per evaluation
_MAX_TEXT = 200  # characters of a value in a difference
_MAX_ORIGINS = 3  # in a sentence


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
        shown["expected"] = bounded(difference.expected)
    if difference.problem != "missing":
        shown["found"] = bounded(difference.found)
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


def _place(at: LookupPlace) -> JsonValue:
    shown: dict[str, JsonValue] = {"source": at.source}
    if at.number is not None:
        shown |= {"call": at.number, "tool": at.tool, "span_id": at.span_id}
    if not at.readable:
        shown["unreadable"] = True
    elif at.found:
        shown["value"] = bounded(at.found[0] if len(at.found) == 1 else [*at.found])
    return shown


def origin(lookup: Lookup) -> str:
    """Why the value is not the one expected, in words that name tools and calls; no values."""
    compared = f" before {listed([lookup.before])}" if lookup.before else ""
    said: list[str] = []
    by_tool: dict[str, list[LookupPlace]] = {}
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


def bounded(value: JsonValue) -> JsonValue:
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
    return [
        f"{_expected_call(str(item['call']))} {item['path']} ({item['problem']})"
        for item in found
        if isinstance(item, dict)
    ]


def _expected_call(key: str) -> str:
    """``create_order_0`` as a sentence has it: "create_order", and "create_order (no. 2)" of ``create_order_1``."""
    name, _, number = key.rpartition("_")
    return name if number == "0" else f"{name} (no. {int(number) + 1})"
