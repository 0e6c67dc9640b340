from typing import Any

from build import each
from evaluate.matcher_examples import EXAMPLES
from tracegrade.evaluate.constraints.sides import rule_of
from tracegrade.evaluate.criteria.compile import compile_value
from tracegrade.evaluate.criteria.matcher import Matcher
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD
from tracegrade.evaluate.evaluators import constraints, partial_order
from tracegrade.evaluate.pairing.steps import steps_in_words

_SAID: list[tuple[Any, str]] = [
    ("refused", "is 'refused'"),
    (5, "is 5"),
    (True, "is true"),
    ([1, "a"], 'is [1,"a"]'),
    ({"$gte": 100, "$lt": 500}, "is at least 100 and is less than 500"),
    ({"$gt": "2026-01-01"}, "is more than '2026-01-01'"),
    ({"$lte": 3}, "is at most 3"),
    ({"$case_insensitive": "Paris"}, "is 'Paris', in small letters or capitals"),
    ({"$contains": "fragile"}, "contains 'fragile'"),
    ({"$contains": {"$gte": 1}}, "has an item that is at least 1"),
    ({"$regex": "^ORD-"}, "has a part that matches '^ORD-'"),
    ({"$glob": "*.csv"}, "fits the glob '*.csv'"),
    ({"$similarity": "Jonathan"}, "is written like 'Jonathan' (by 0.8 of 1 or more)"),
    ({"$numeric_tolerance": {"value": 9.99, "epsilon": 0.05}}, "is 9.99, give or take 0.05"),
    ({"$type": ["string", "integer"]}, "is a text or a whole number"),
    ({"$length": {"$lte": 2}}, "has a length that is at most 2"),
    ({"$schema": {"type": "object"}}, 'is valid by the JSON Schema {"type":"object"}'),
    ({"$one_of": ["celsius", "kelvin"]}, "is 'celsius' or 'kelvin'"),
    ({"$one_of": ["celsius", {"$length": 0}]}, "is 'celsius' or has a length that is 0"),
    ({"$secret": True}, "has a part that is a secret"),
    ({"$any": True}, "is there"),
    ({"$from": "prompt"}, "is in the prompt"),
    ({"$from": "find.output"}, "is in what any earlier find returned"),
    (
        {"$from": ["find.output.items[0].id", "prompt"]},
        "is what any earlier find returned as items[0].id or in the prompt",
    ),
    ({"$from": {"source": "find.arguments.id", "call": "last"}}, "is what the last find before was given as id"),
    ({"$from": "*.output"}, "is in what any earlier call returned"),
    ({"a": {"$gte": 1}, "b": {"$absent": True}}, "is an object whose a is at least 1 and b is not there"),
    ([{"$any": True}, 2], "is a list whose items, in this order: is there, is 2"),
    ({"$literal": {"$gte": 5}}, 'is {"$gte":5}'),
    ("x" * 300, "is '" + "x" * 120 + "…'"),
    ({}, "is {}"),
]


@each(("written", "said"), _SAID)
def test_a_criterion_is_said_as_a_person_would_say_it(written: Any, said: str) -> None:
    assert compile_value(written).in_words() == said


def test_every_matcher_has_words_of_its_own() -> None:
    assert [word for word, matcher in MATCHERS_BY_WORD.items() if matcher.in_words is Matcher.in_words] == []
    asked = {key for written, _ in _SAID if isinstance(written, dict) for key in written} | {"$absent", "$semantic"}
    for word, matcher in MATCHERS_BY_WORD.items():  # one that is not asked above has the example of the reference
        assert word in asked or compile_value({word: EXAMPLES[word].argument}).in_words(), matcher


@each(
    ("side", "said"),
    [
        ("refund", "refund"),
        ({"tool": ["a", "b"], "where": {"error": False}}, "successful a or b"),
        ({"where": {"error": True}}, "any tool (failed)"),
        (
            {"tool": "lookup", "where": {"output": {"status": "refused"}, "args": {"id": {"$from": "prompt"}}}},
            "lookup (where args.id is in the prompt, and output.status is 'refused')",
        ),
        ({"tool": "lookup", "where": {"output": {"$contains": "no"}}}, "lookup (where output contains 'no')"),
        ({"tool": "pay", "where": {"agent": ["billing", "desk*"]}}, "pay (by agent billing or desk*)"),
    ],
)
def test_the_calls_that_a_constraint_speaks_of(side: Any, said: str) -> None:
    (form,) = constraints.EVALUATOR.read_criteria({"constraints": [{"never": side}]}).constraints
    assert rule_of(form.sides[0]) == said


def test_the_steps_of_a_partial_order() -> None:
    steps = [
        "login",
        {"parallel": ["a", ["b", {"tool": "c", "args": {"x": {"$gte": 1}}}]]},
        {"choice": ["pay", ["invoice", "remind"]]},
        {"tool": "log", "anywhere": True, "optional": True},
        {"tool": "ship", "repeat": [1, 3]},
        {"tool": "poll", "repeat": [2, 2], "name": "again"},
        {"tool": "mail", "after": ["login", "again"]},
        {"tool": "note", "after": []},
    ]
    assert steps_in_words(partial_order.EVALUATOR.read_criteria({"steps": steps}).steps) == [
        "login",
        "then beside each other: a; and b, then c (where args.x is at least 1)",
        "then one of these: pay; or invoice, then remind",
        "log, at any time, or not at all",
        "then ship, 1 to 3 times",
        "then poll, called 'again', 2 times",
        "mail, after login and again",
        "note, after no other step",
    ]
