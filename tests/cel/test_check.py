"""What an expression is refused for, compared with the library that judges: what is taken runs."""

from typing import Any

import pytest

import build
from build import each
from build.extractions import ROOT, call_of, extraction_of
from tracegrade.cel.check import FUNCTIONS, CelTypeError, check
from tracegrade.cel.expression import CelExpression
from tracegrade.cel.syntax import Loop, every_node, parse
from tracegrade.cel.variables import VARIABLES, CelType
from tracegrade.match.facts import FactReader
from tracegrade.match.select import match_trace
from tracegrade.model.agent_run import AgentRun
from tracegrade.rule.rule_set import RuleSet

# One value of each type, as an expression writes it.
WRITTEN = {
    "int": "1",
    "uint": "1u",
    "double": "1.5",
    "text": '"3"',
    "bool": "true",
    "bytes": 'b"a"',
    "null": "null",
    "time": 'timestamp("2024-01-01T00:00:00Z")',
    "duration": 'duration("1h")',
    "type": "int",
    "list": "[1]",
    "map": '{"a": 1}',
}
OPERATORS = ("<", "<=", ">", ">=", "+", "-", "*", "/", "%", "in", "&&", "||", "==", "!=")


def runs(source: str) -> bool:
    """Whether the library can make something of an expression."""
    import cel

    try:
        cel.evaluate(source, {})
    except Exception as error:
        return "verflow" in str(error)
    return True


def is_taken(source: str) -> bool:
    """Whether `check` has nothing against it as a part of an expression."""
    try:
        check(parse(f"[{source}].size() == 1"))
    except CelTypeError:
        return False
    return True


# What the library runs all the same, and what nobody can mean by it.
POINTLESS = {"-": ["-true"], "+": ['[1] + {"a": 1}']}


@each("operator", OPERATORS)
def test_an_operator_takes_the_types_that_the_library_has_it_for(operator: str) -> None:
    for left in WRITTEN:
        for right in WRITTEN:
            source = f"{WRITTEN[left]} {operator} {WRITTEN[right]}"
            if is_taken(source):
                assert runs(source), source
            elif operator in ("==", "!="):
                assert left != right, source
                assert "null" not in (left, right), source
            elif operator == "||":  # the library has 1 || true, which is true whatever stands there
                assert (left, right) != ("bool", "bool"), source
            elif operator == "in":  # never in it
                assert not runs(source) or right in ("list", "map"), source
            else:
                assert not runs(source) or source in POINTLESS.get(operator, []), source


@each("name", sorted({*FUNCTIONS, "max", "min", "lowerAscii", "bool"} - {"has"}))
def test_a_function_takes_the_types_that_the_library_has_it_for(name: str) -> None:
    for form in ("{0}.NAME()", "NAME({0})", "{0}.NAME({1})", "NAME({0}, {1})"):
        for first in WRITTEN.values():
            for second in WRITTEN.values() if "{1}" in form else [""]:
                source = form.format(first, second).replace("NAME", name)
                # A text that is no time, duration or number: that is its value, not its type.
                if name in ("timestamp", "duration") and first == WRITTEN["text"]:
                    assert is_taken(source) is (form == "NAME({0})")
                else:
                    assert is_taken(source) is runs(source), source


@each(
    ("source", "why"),
    [
        ("calls.exists(c, c.args.amount > 500)", "no member 'args' of a call; of a call, 'arguments' is what it was"),
        ('calls.all(c, c["input"].amount > 500)', "no member 'input' of a call; of a call, 'arguments' is what it was"),
        ("arguments.amount > 500", "no variable 'arguments'; each of 'calls' has its own"),
        ("tokens > 500", "no variable 'tokens'; it is known only when a subject is judged: the evaluator 'condition'"),
        ("calls[0] == calls[1]", "a call cannot be compared as a whole; compare its members, such as .name"),
        ("handoffs == []", "a handoff cannot be compared as a whole; compare its members, such as .from"),
        ("handoffs.all(h, h.target == 'a')", "no member 'target' of a handoff"),
        ("calls[0] in calls", "a call cannot be compared as a whole"),
        ("calls.filter(c, c.failed) != []", "a call cannot be compared as a whole"),
        ("calls.filter(c, c.nam == 'a').size() > 0", "no member 'nam' of a call; did you mean 'name'?"),
        ("calls.map(c, c.outputs).size() > 0", "no member 'outputs' of a call; of a call, 'output' is what it"),
        ("calls.map(c, c.failed, c.name)[0] == 1", "a text and a whole number are never equal"),
        ("calls.exists_one(c, has(c.nope))", "no member 'nope' of a call"),
        ("has(trace.nope)", "no member 'nope' of the trace"),
        ("calls[0].nope", "no member 'nope' of a call"),
        ("calls[size(calls) - 1].nope", "no member 'nope' of a call"),
        ("calls[-1].failed", "expected a place from 0; of a list x, the last is x[size(x) - 1]"),
        ('calls["a"].failed', "expected a whole number as place in the list, found a text"),
        ("calls.name == 'a'", "no member 'name': a list has none; its items have it: .exists(c, c.name ...)"),
        ("calls.exists(c, calls.exists(d, d.nam == c.name))", "no member 'nam' of a call"),
        ("calls.exists(c, true) && c.failed", "no variable 'c'"),
        ("tools.exists(t, t.name == 'a')", "no member 'name': a text has none"),
        ("tools.contains('a')", "contains takes no list; of a list, write: VALUE in LIST"),
        ("'a' in service", "after 'in', found a text; of a text, write: TEXT.contains(PART)"),
        ("5 in tools", "a whole number is never in a list whose items are a text"),
        ("trace.durationms > 5", "no member 'durationms' of the trace; did you mean 'duration_ms'?"),
        ("trace.duration_ms + 1 > 5", "+ has no meaning for a number with decimals and a whole number; write 1.0"),
        ("trace.duration_ms > '5s'", "> cannot compare a number with decimals with a text"),
        ("trace.span_count == '5'", "a whole number and a text are never equal"),
        ("trace.complete == 'true'", "true or false and a text are never equal"),
        ("trace.complete ? 1 : 2", "expected true or false, found a whole number"),
        ("!trace.session", "expected true or false, found a text"),
        ("service && true", "expected true or false, found a text"),
        ("true || service", "expected true or false, found a text"),
        ("calls.exists(c, c.name)", "expected true or false, found a text"),
        ("service.exists(c, true)", "exists goes over a list, found a text"),
        ("exists(tools, t, true)", "exists is written LIST.exists(x, ...)"),
        ("size(tools, 1) > 0", "size is written VALUE.size()"),
        ("max(trace.span_count, 1) > 0", "no function 'max'"),
        ("servce == 'a'", "no variable 'servce'; did you mean 'service'?"),
    ],
)  # fmt: skip
def test_what_cannot_hold_of_any_subject_is_refused(source: str, why: str) -> None:
    with pytest.raises(ValueError, match="at character") as refused:
        CelExpression(source)
    assert why in str(refused.value)


@each(
    "source",
    [
        "size(calls) > 0 && calls[size(calls) - 1].failed",
        "calls.exists(c, c.name == calls[size(calls) - 1].name && !c.failed)",
        "calls.filter(c, c.duration_ms > 500).map(c, c.name).exists(n, n.startsWith('a'))",
        "calls.map(c, c.failed, c.name) == ['a', 'b']",
        "tools.exists(t, tools.exists(u, t != u)) ? trace.complete : !trace.complete",
        'attributes["a.b"].c[0].d > 5 || "a.b" in attributes || has(attributes.size)',
        'attributes["a"] + 1 == 2 && attributes["b"].startsWith("x")',
        'trace["duration_ms"] / 1000.0 > 5',
        "'name' in trace || trace.exists(k, k == 'id')",
        "[1, 2, 3].exists(n, n == trace.span_count)",
        "{'a': 1, 'b': 2}['a'] == 1",
        "service == null || prompt.matches('(?i)x')",
        'service == """a""" || service == r"\\d" // what is this',
        "type(attributes.a) == string",
        "timestamp('2024-01-01T00:00:00Z').getFullYear() > 3 && duration('1h') > duration('1m')",
        "'a\\'b' == service && -1 < trace.span_count && !!true",
    ],
)
def test_what_can_hold_is_taken(source: str) -> None:
    assert CelExpression(source).source == source


def test_how_deep_an_expression_may_be_is_bounded() -> None:
    assert CelExpression("(" * 20 + "true" + ")" * 20).loops == 0
    assert CelExpression(" && ".join(["true"] * 300)).loops == 0
    for source in ("(" * 60 + "true" + ")" * 60, "!" * 60 + "true", "attributes.a" + ".b" * 60):
        with pytest.raises(ValueError, match="at most"):
            CelExpression(source)


def test_what_is_read_of_an_expression() -> None:
    attributes = "attributes.x == attributes['y z'] && 'q' in attributes"
    expression = CelExpression(f"calls.exists(a, {attributes} && tools.all(b, b != 'attributes'))")
    assert expression.attributes == {"x", "y z", "q"}
    assert expression.loops == 2
    assert [node.variable for node in every_node(parse("a.map(b, c, d)")) if isinstance(node, Loop)] == ["b"]


MAY_LACK = {"arguments", "output", "start_ms", "duration_ms"}


def test_subjects_have_what_the_table_says() -> None:
    """What `facts` hands over has the members and the types that expressions are checked against."""
    run = AgentRun(ROOT, "support", prompt="Please", calls=[call_of("create_order"), call_of("transfer_to_sales")])
    run.final_answer = "done"
    extraction = extraction_of([run])
    (found,) = match_trace(RuleSet([build.rule()]), extraction)
    variables = FactReader(extraction).read(found.subject).variables(with_values=True)
    matched = {name: field for name, field in VARIABLES.items() if not field.judged}
    assert variables.keys() == matched.keys()
    for name, field in matched.items():
        assert has_type(variables[name](), field.type), name


def has_type(value: Any, expected: CelType) -> bool:
    if expected.kind == "list":
        assert expected.item is not None
        return isinstance(value, list) and bool(value) and all(has_type(item, expected.item) for item in value)
    if expected.kind == "map":
        if expected.fields is None:
            return isinstance(value, dict)
        members = expected.fields
        there = members.keys() - MAY_LACK
        return there <= value.keys() <= members.keys() and all(
            has_type(value[name], members[name].type) for name in value
        )
    if expected.kind == "any":
        return True
    return type(value) is {"text": str, "int": int, "double": float, "bool": bool}[expected.kind]
