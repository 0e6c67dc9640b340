"""The index against the obvious: asking every rule."""

from typing import Any
from weakref import WeakSet

from hypothesis import given
from hypothesis import strategies as st

import build
from build import each
from tracegrade.match.facts import Facts
from tracegrade.match.index import Index
from tracegrade.match.select import unmatched
from tracegrade.model.subject import Subject
from tracegrade.model.trace import Trace
from tracegrade.rule.rule import Rule

TRACE = Trace(bytes(16), "default", [], "settled", [], 0)
SUBJECT = Subject("agent", "aa" * 8, TRACE, None, [], "support", "aa" * 8)  # of which only CEL reads more


class Text(str):
    """A text that is seen to go: a `str` itself takes no weak references."""


def rule_of(number: int, clauses: dict[str, Any]) -> Rule:
    return build.rule(id=f"rule-{number}", match=clauses)


def facts_of(**fields: Any) -> Facts:
    known: dict[str, Any] = {
        "tenant": "shop",
        "service": "shop",
        "environment": None,
        "release": None,
        "agent": "support",
        "tools": [],
        "prompt": None,
        "attributes": [{}],
        "subject": SUBJECT,
    }
    return Facts(**(known | fields))


PATTERN = st.sampled_from(["a", "b", "c", "a*", "*", "?", "[bc]"])
PATTERNS = st.one_of(PATTERN, st.lists(PATTERN, min_size=1, max_size=3))
PROMPT = st.one_of(
    st.sampled_from(["a", "b", " a\tb "]), st.fixed_dictionaries({"$regex": st.sampled_from(["a", "^b"])})
)
SCALAR = st.sampled_from(["a", "b", "a*", 1, 1.0, True, False, 0])
CLAUSES = st.fixed_dictionaries(
    {},
    optional={
        "service": PATTERNS,
        "environment": PATTERNS,
        "release": PATTERNS,
        "agent": PATTERNS,
        "tools": PATTERNS,
        "prompt": st.one_of(PROMPT, st.lists(PROMPT, min_size=1, max_size=2)),
        "attributes": st.dictionaries(st.sampled_from(["x", "y.z"]), SCALAR, max_size=2),
    },
)
NAME = st.sampled_from(["a", "b", "ab", ""])
VALUE = st.one_of(st.none(), NAME, st.sampled_from([1, True, 0]), st.lists(NAME, max_size=2))
FACTS = st.builds(
    Facts,
    subject=st.just(SUBJECT),
    service=NAME,
    environment=VALUE,
    release=VALUE,
    agent=NAME,
    tools=st.lists(NAME, max_size=3, unique=True),
    prompt=st.one_of(st.none(), st.sampled_from(["a", "b", "a b"])),
    attributes=st.lists(st.dictionaries(st.sampled_from(["x", "y.z", "other"]), VALUE, max_size=2), max_size=3),
)


@given(st.lists(CLAUSES, max_size=12), st.lists(FACTS, min_size=1, max_size=4))
def test_no_rule_that_matches_is_left_out(clauses: list[dict[str, Any]], subjects: list[Facts]) -> None:
    rules = [rule_of(number, part) for number, part in enumerate(clauses)]
    index = Index(rules)
    for facts in subjects:
        candidates = [rule.id for rule in index.candidates(facts)]
        assert candidates == sorted(set(candidates), key=lambda rule_id: int(rule_id[5:]))
        assert {rule.id for rule in rules if unmatched(rule, facts)[0] is None} <= set(candidates)


@each(
    "other",
    [
        lambda number: {"service": f"other-{number}"},
        lambda number: {"service": f"other-{number}-*"},
        lambda number: {"service": "shop", "agent": f"agent-{number}", "tools": "pay"},
        lambda number: {"service": "shop", "tools": [f"tool-{number}", f"tool-{number + 1}"]},
        lambda number: {"service": "shop", "environment": "prod", "attributes": {"tenant.id": number}},
        lambda number: {"service": "shop", "attributes": {f"tenant.{number}": "gold"}},
        lambda number: {"service": "shop", "prompt": f"do {number}"},
        lambda number: {"tools": "pay", "prompt": {"$regex": "do"}, "release": f"1.{number}"},
    ],
    ids=["service", "glob", "agent", "tools", "attribute value", "attribute name", "prompt", "release"],
)
def test_rules_that_ask_for_other_values_are_not_even_looked_at(other: Any) -> None:
    rules = [rule_of(number, other(number)) for number in range(1000)]
    rules += [rule_of(1000 + number, {"service": "shop", "tools": "pay"}) for number in range(3)]
    facts = facts_of(tools=["pay"], prompt="do it", environment="prod", release="2", attributes=[{"tenant.id": -1}])
    assert [rule.id for rule in Index(rules).candidates(facts)] == ["rule-1000", "rule-1001", "rule-1002"]


def test_values_that_senders_invent_are_not_remembered_for_ever() -> None:
    index = Index([rule_of(1, {"agent": "support-*"})])
    remembered: WeakSet[Text] = WeakSet()
    for number in range(10_000):
        remembered.add(agent := Text(f"support-{number}"))
        assert len(index.candidates(facts_of(agent=agent))) == 1
        del agent
    assert 0 < len(remembered) <= 4096


def test_long_values_are_not_remembered_at_all() -> None:
    index = Index([rule_of(1, {"attributes": {"document": "a*"}})])
    document = Text("a" * 1000)
    remembered = WeakSet([document])
    assert len(index.candidates(facts_of(attributes=[{"document": document}]))) == 1
    del document
    assert not remembered
