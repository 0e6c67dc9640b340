"""Warnings about rules that are allowed and look wrong: each at its place in the file, with what to do.

A rule that cannot work is refused while it is read. These can, and hardly ever do what their authors mean.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from tracegrade.document.problem import Location, did_you_mean
from tracegrade.evaluate.criteria.expected_count import ExpectedCount
from tracegrade.evaluate.criteria.regular_expressions import is_glob
from tracegrade.model.agent_run import normalised_prompt
from tracegrade.model.json_value import JsonValue
from tracegrade.model.usage import NO_PRICES
from tracegrade.rule.clauses import Clauses
from tracegrade.rule.constraint_warnings import constraint_warnings
from tracegrade.rule.evaluation_spec import EvaluationSpec
from tracegrade.rule.patterns import Patterns
from tracegrade.rule.rule import Rule

Warning: TypeAlias = tuple[Location, str]
_Sense: TypeAlias = Literal["expected", "constrained", "other"]

_NO_PRICES = f"costs are not known, and nothing can be said of them: {NO_PRICES}"

# A question mark that ends a sentence is none of a glob's.
_LOOKS_LIKE_A_GLOB = re.compile(r"\*|\?\w|\[[^\]\s]+\]")
# Where items list the calls they expect, and in what else they name tools.
_CALL_LISTS = ("tool_calls_order", "tool_calls", "tool_outputs", "reference_tool_calls")
_NAMES = ("expected_tool", "required", "valid_prerequisites")
_WITH_NAMES = ("tool-permission", "trajectory")  # how they compare names is a setting
_PERMITTED = ("allowed_tools", "denied_tools")


class _Named(NamedTuple):
    """A tool that an item names: where, and whether a call of it is expected, or it is named for another reason.

    Constraints take globs as names, and they expect nothing where they are not triggered.
    """

    location: Location
    name: str
    sense: _Sense


def warnings_of(rule: Rule) -> Iterator[Warning]:
    """What can be said of the rule by itself; each with the location of what it is about."""
    yield from _globs_in_prompts(rule)
    for location, spec in rule.placed_specs():
        named = list(_named(location, spec.written))
        yield from _globs_in_exact_names(spec, named)
        yield from _several_calls_of_one(rule, location, spec)
        yield from _contended_calls(location, spec)
        yield from _tools_left_out(rule, named)
    yield from _cases_never_met(rule)
    yield from constraint_warnings(rule)
    if rule.alert and rule.status == "experimental":
        yield ("alert",), "an experimental rule never alerts; write status: stable, or remove 'alert'"
    if rule.gate is not None and rule.status != "stable":
        yield ("gate",), f"no gate counts a rule that is {rule.status}; write status: stable, or remove 'gate'"


def unknown_tools(rule: Rule, stored: Mapping[str, Collection[str]]) -> Iterator[Warning]:
    """The tools that the rule names and no stored trace has whose service it matches.

    Args:
        rule: it.
        stored: the names of the tools that stored traces called, by service; of none, nothing can be said.
    """
    services = rule.match.service
    known = {name for service, names in stored.items() if services is None or services.match(service) for name in names}
    if not known:
        return
    for location, patterns in _tool_clauses(rule):
        for path, name in _texts(patterns.written):
            glob = Patterns(
                name,
                exact=frozenset() if name in patterns.globs else frozenset((name,)),
                globs=(name,) if name in patterns.globs else (),
            )
            if not any(glob.match(tool) for tool in known):
                yield (*location, *path), f"no stored trace calls {name!r}{did_you_mean(name, known)}"
    for location, spec in rule.placed_specs():
        for where, name, sense in _named(location, spec.written):
            looked_for = sense == "expected" or (sense == "constrained" and not is_glob(name))
            if looked_for and name not in known:
                yield where, f"no stored trace calls {name!r}{did_you_mean(name, known)}"


def costs_not_known(rule: Rule) -> Iterator[Warning]:
    """Where the rule reads what runs cost; without prices in the settings nobody knows."""
    for location, spec in rule.placed_specs():
        if spec.written.get("max_cost") is not None:
            yield (*location, "max_cost"), _NO_PRICES
    for place, alert in enumerate(rule.alert):
        if alert.of == "cost":
            yield ("alert", place, "of"), _NO_PRICES


def _globs_in_prompts(rule: Rule) -> Iterator[Warning]:
    clauses: list[tuple[Location, Patterns | None]] = [
        (("match", "prompt"), rule.match.prompt),
        (("unless", "prompt"), rule.unless.prompt if rule.unless is not None else None),
    ]
    for place, case in enumerate(rule.cases.all if rule.cases is not None else ()):
        clauses.append((("cases", place, "match", "prompt"), case.match.prompt))
    for location, patterns in clauses:
        for path, text in _texts(patterns.written) if patterns is not None else ():
            if _LOOKS_LIKE_A_GLOB.search(text):
                yield (
                    (*location, *path),
                    f"{text!r} looks like a glob, and prompts are compared as they are; a part is {{$regex: ...}}",
                )


def _globs_in_exact_names(spec: EvaluationSpec, named: Sequence[_Named]) -> Iterator[Warning]:
    """Names with a star where names are compared as they are, so that no tool has them."""
    if spec.written.get("names", "exact") != "exact":
        return
    to_do = "write names: glob" if spec.evaluator.name in _WITH_NAMES else "'constraints' and 'trajectory' take globs"
    for where, name, sense in named:
        if sense != "constrained" and is_glob(name):
            yield where, f"{name!r} looks like a glob, and names are compared as they are; {to_do}"


def _several_calls_of_one(rule: Rule, location: Location, spec: EvaluationSpec) -> Iterator[Warning]:
    for field in _CALL_LISTS if rule.scope == "tool-call" else ():
        expected = spec.written.get(field)
        if isinstance(expected, list) and len(expected) > 1:
            yield (
                (*location, field),
                f"{len(expected)} calls are expected, and scope: tool-call judges one call at a time; "
                "write scope: agent",
            )


def _contended_calls(location: Location, spec: EvaluationSpec) -> Iterator[Warning]:
    """Expected calls of one tool of which a scan may give one the call that the other needs."""
    evaluator, criteria, settings = spec.evaluator, spec.criteria, spec.settings
    if spec.case is not None or evaluator.pairing(criteria, settings) != "first":
        return
    if (pair := evaluator.contended(criteria, settings)) is not None:
        one, other = pair
        field = next((field for field in _CALL_LISTS if field in spec.written), None)
        yield (
            location if field is None else (*location, field, other),
            f"expected calls {one + 1} and {other + 1} may take each other's calls, and with pairing: first the "
            "order in which they are written decides; write pairing: best",
        )


def _tools_left_out(rule: Rule, named: Sequence[_Named]) -> Iterator[Warning]:
    """Expected tools that are in no subject: scope tool-call has the calls of `match.tools` alone."""
    tools, excluded = rule.match.tools, _excluded(rule.unless)
    for location, name, sense in named:
        if sense != "expected":
            continue
        if rule.scope == "tool-call" and tools is not None and not tools.match(name):
            yield location, f"{name!r} is expected, and match.tools leaves its calls out"
        elif excluded is not None and excluded.match(name):
            yield location, f"{name!r} is expected, and unless.tools leaves out what calls it"


def _excluded(unless: Clauses | None) -> Patterns | None:
    """The tools whose calls alone leave a subject out."""
    if unless is None or unless.cel is not None or [name for name, _ in unless.named()] != ["tools"]:
        return None
    return unless.tools


def _cases_never_met(rule: Rule) -> Iterator[Warning]:
    """Cases whose prompts and attributes an earlier one has."""
    met: dict[tuple[str, str], str] = {}
    for place, case in enumerate(rule.cases.all if rule.cases is not None else ()):
        attributes = repr(sorted((name, repr(values.written)) for name, values in case.match.attributes.items()))
        for path, text in _texts(case.match.prompt.written) if case.match.prompt is not None else ():
            where: Location = ("cases", place, "match", "prompt", *path)
            earlier = met.setdefault((normalised_prompt(text), attributes), case.id)
            if earlier != case.id:
                yield where, f"case {earlier!r} has the same prompt and comes first; {case.id!r} is met by its id alone"


def _tool_clauses(rule: Rule) -> Iterator[tuple[Location, Patterns]]:
    for name, clauses in (("match", rule.match), ("unless", rule.unless)):
        if clauses is not None and clauses.tools is not None:
            yield (name, "tools"), clauses.tools


def _named(location: Location, item: Mapping[str, JsonValue]) -> Iterator[_Named]:
    """The tools that an item names."""
    for field in (*_CALL_LISTS, *_NAMES, *_PERMITTED):
        value = item.get(field)
        sense: _Sense = "other" if field in _PERMITTED else "expected"
        for place, part in enumerate(value) if isinstance(value, list) else ():
            name = part.get("name") if isinstance(part, dict) else part
            if isinstance(name, str):
                yield _Named((*location, field, place), name, sense)
        if isinstance(value, str):
            yield _Named((*location, field), value, sense)
    counts = item.get("tool_calls_count")
    for name, expected in counts.items() if isinstance(counts, dict) else ():
        yield _Named((*location, "tool_calls_count", name), name, "other" if _may_be_none(expected) else "expected")
    constraints = item.get("constraints")
    for place, constraint in enumerate(constraints) if isinstance(constraints, list) else ():
        for word, side in constraint.items() if isinstance(constraint, dict) else ():
            if word not in ("never", "absence", "same", "within"):
                for name in _names_of_side(side):
                    yield _Named((*location, "constraints", place, word), name, "constrained")


def _names_of_side(side: JsonValue) -> Iterator[str]:
    for part in side if isinstance(side, list) else [side]:
        tool = part.get("tool") if isinstance(part, dict) else part
        yield from (name for name in (tool if isinstance(tool, list) else [tool]) if isinstance(name, str))


def _may_be_none(count: JsonValue) -> bool:
    """Whether no call at all is as expected."""
    match count:
        case [str(sign), int(number)]:
            return ExpectedCount(sign, number).holds(0)
    return True


def _texts(written: JsonValue) -> Iterator[tuple[tuple[int, ...], str]]:
    """The texts of a clause that may be one or a list, with their places in it."""
    if isinstance(written, str):
        yield (), written
    for place, item in enumerate(written) if isinstance(written, list) else ():
        if isinstance(item, str):
            yield (place,), item
