"""A span that is a tool call and names no tool: it may be any call, so what it could change is not evaluable."""

from collections.abc import Sequence
from random import Random
from typing import Any

import build
from build import each
from evaluate.criteria_of_each import CRITERIA
from tracegrade.cel.expression import CelExpression
from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.evaluator import same_score
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.extraction import UnreadWork
from tracegrade.model.handoff import Handoff, handoffs_among
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.usage import Cost

UNREAD_WORK = UnreadWork("0f" * 8, 25, "tool span without a name", "acme.agent")
UNREAD = 25  # when the span began; calls begin at 10, 20, 30, ...


class _Context:
    def __init__(self, calls: Sequence[ToolCall], begins: int = UNREAD) -> None:
        self._calls = calls
        self._begins = begins

    def handoffs(self) -> Sequence[Handoff]:
        return handoffs_among(self._calls)

    def tool_definitions(self) -> dict[str, Any]:
        return {}

    def tokens(self) -> int | None:
        return None

    def cost(self) -> Cost:
        return Cost(None)

    def unread_before(self, call: ToolCall | None) -> UnreadWork | None:
        return UNREAD_WORK if call is None or call.start_ns >= self._begins else None


def made(names: str) -> list[ToolCall]:
    """Calls of the tools that are named, each with an id and the output "what it is"."""
    return [
        build.call(name, {"id": "ORDER-1"}, output="ORDER-1", start_ns=place * 10, end_ns=place * 10 + 1)
        for place, name in enumerate(names.split(), 1)
    ]


def outcome(evaluator: str, written: dict[str, Any], names: str, *, known: bool = False, threshold: float = 1) -> str:
    judge = EVALUATORS[evaluator]
    criteria, how = judged_by(judge, written)
    calls = made(names)
    context: Any = None if known else _Context(calls)
    evidence = Evidence(calls, "Hello", "Bye", trace_context=context)
    found = judge.evaluate(evidence, criteria, how)
    if found.outcome(threshold) == "not_evaluable" and not known:
        said = "the tool of a call cannot be read (span 0f0f0f0f0f0f0f0f, scope acme.agent)"
        assert said in (found.range.why if found.range is not None else found.explanation)
    return found.outcome(threshold)


CONSTRAINTS: list[tuple[dict[str, Any], str, str, str]] = [
    # the constraint, the calls, the outcome if these are all, and with a call between the second and the third or later
    ({"never": "pay"}, "look", "pass", "not_evaluable"),
    ({"never": "pay"}, "look pay", "fail", "fail"),
    ({"at_most": 1, "of": "pay"}, "pay", "pass", "not_evaluable"),
    ({"at_most": 1, "of": "pay"}, "pay pay", "fail", "fail"),
    ({"at_most": 1, "of": "pay", "same": "id"}, "pay", "pass", "not_evaluable"),
    ({"at_least": 1, "of": "pay"}, "look", "fail", "not_evaluable"),
    ({"at_least": 1, "of": "pay"}, "pay", "pass", "pass"),
    ({"exactly": 1, "of": "pay"}, "pay", "pass", "not_evaluable"),
    ({"exactly": 1, "of": "pay"}, "look", "fail", "not_evaluable"),
    ({"exactly": 1, "of": "pay"}, "pay pay", "fail", "fail"),
    ({"not_both": ["pay", "ship"]}, "look", "pass", "not_evaluable"),
    ({"not_both": ["pay", "ship"]}, "pay ship", "fail", "fail"),
    ({"first": "look"}, "look pay", "pass", "pass"),
    ({"first": "look"}, "pay look", "fail", "fail"),
    ({"first": "look"}, "", "fail", "not_evaluable"),
    ({"last": "pay"}, "look pay", "pass", "not_evaluable"),
    ({"last": "pay"}, "pay look", "fail", "not_evaluable"),
    # It came after the refund, which needed one before.
    ({"before": "pay", "comes": "look"}, "x pay", "fail", "fail"),
    ({"before": "pay", "comes": "look"}, "x x pay", "fail", "not_evaluable"),
    ({"before": "pay", "comes": "look"}, "look x pay", "pass", "not_evaluable"),
    ({"after": "pay", "comes": "mail"}, "pay", "fail", "not_evaluable"),
    ({"right_before": "pay", "comes": "look"}, "look pay", "pass", "not_evaluable"),
    ({"before_each": "pay", "comes_a_new": "ok"}, "pay", "fail", "fail"),
    ({"if": "pay", "also": "mail"}, "pay", "fail", "not_evaluable"),
    # Nothing that is known triggers it.
    ({"before": "pay", "comes": "look"}, "x", "not_evaluable", "not_evaluable"),
]


@each(("constraint", "names", "if_all", "found"), CONSTRAINTS)
def test_a_constraint(constraint: dict[str, Any], names: str, if_all: str, found: str) -> None:
    written = {"constraints": [constraint]}
    assert outcome("constraints", written, names, known=True) == if_all
    assert outcome("constraints", written, names) == found


def test_a_constraint_that_nothing_known_triggers_is_not_taken_as_kept() -> None:
    written = {"constraints": [{"before": "pay", "comes": "look"}], "vacuous": "pass"}
    assert outcome("constraints", written, "x", known=True) == "pass"
    assert outcome("constraints", written, "x") == "not_evaluable"


def test_one_constraint_that_is_broken_for_certain_is_enough() -> None:
    written = {"constraints": [{"before": "pay", "comes": "look"}, {"never": "x"}]}
    assert outcome("constraints", written, "look pay x") == "fail"
    assert outcome("constraints", written, "look pay x", threshold=0.5) == "not_evaluable"


ORDER = {"name": "a", "args": {"id": "ORDER-1"}}
LAST_OUTPUT = {"name": "b", "args": {"id": {"$from": {"source": "*.output", "call": "last"}}}}


@each(
    ("evaluator", "written", "names", "if_all", "found"),
    [
        ("multi-turn", {"expected_tool": "b"}, "b", "pass", "not_evaluable"),
        ("multi-turn", {"expected_tool": "b"}, "a", "fail", "not_evaluable"),
        # Already longer than is enough.
        ("multi-turn", {"expected_tool": "b"}, "a b", "fail", "fail"),
        ("multi-turn", {"expected_tool": "b", "valid_prerequisites": ["a"]}, "a b", "pass", "not_evaluable"),
        ("partial-order", {"steps": ["a", "b"]}, "a b", "pass", "pass"),
        ("partial-order", {"steps": ["a", "b"]}, "a", "fail", "not_evaluable"),
        ("partial-order", {"steps": ["a", "b"], "extra": "count"}, "a b", "pass", "not_evaluable"),
        ("handoffs", {"max_handoffs": 1}, "transfer_to_b", "pass", "not_evaluable"),
        ("handoffs", {"max_handoffs": 1}, "transfer_to_b transfer_to_c", "fail", "fail"),
        ("handoffs", {"max_handoffs": 1, "seen_in": ["spans"]}, "transfer_to_b", "pass", "pass"),
        ("handoffs", {"order": ["b"]}, "transfer_to_b", "pass", "pass"),
        ("handoffs", {"order": ["b", "c"]}, "transfer_to_b", "fail", "not_evaluable"),
        ("handoffs", {"may_pass_to": {"*": "b"}}, "transfer_to_b", "pass", "not_evaluable"),
        ("handoffs", {"may_pass_to": {"*": "b"}}, "transfer_to_c", "fail", "fail"),
        # A call that is no handoff may stand between the two.
        ("handoffs", {"max_in_a_row": 1}, "transfer_to_b transfer_to_c", "fail", "not_evaluable"),
        ("data-flow", {"returned_by": "page", "given_to": "send"}, "page x", "pass", "not_evaluable"),
        ("data-flow", {"returned_by": "page", "given_to": "send"}, "page send", "fail", "fail"),
        ("condition", {"expression": "calls.all(c, c.name != 'pay')"}, "look", "pass", "not_evaluable"),
        ("condition", {"expression": "calls.all(c, c.name != 'pay')"}, "pay", "fail", "fail"),
        ("condition", {"expression": "calls.exists(c, c.name == 'pay')"}, "pay", "pass", "pass"),
        ("condition", {"expression": "calls.exists(c, c.name == 'pay')"}, "look", "fail", "not_evaluable"),
        ("condition", {"expression": "prompt == 'Hello'"}, "look", "pass", "pass"),
        ("tool-call-order", {"tool_calls_order": ["a", "b"]}, "a b", "pass", "pass"),
        ("tool-call-order", {"tool_calls_order": ["a", "b"]}, "b a", "fail", "not_evaluable"),
        ("tool-call-order", {"tool_calls_order": ["a"], "strict": True}, "a", "pass", "not_evaluable"),
        ("tool-call-count", {"tool_calls_count": {"a": ["<=", 1]}}, "a", "pass", "not_evaluable"),
        ("tool-call-count", {"tool_calls_count": {"a": ["<=", 1]}}, "a a", "fail", "fail"),
        ("tool-call-count", {"tool_calls_count": {"a": [">=", 1]}}, "a", "pass", "pass"),
        ("tool-call-count", {"tool_calls_count": {"a": [">=", 2]}}, "a", "fail", "not_evaluable"),
        ("tool-call-args", {"tool_calls": [{"name": "a", "args": {"id": "ORDER-1"}}]}, "b", "fail", "not_evaluable"),
        ("tool-call-args", {"tool_calls": [{"name": "a", "args": {"id": "ORDER-1"}}]}, "a b", "pass", "pass"),
        ("tool-call-args", {"tool_calls": [ORDER], "pairing": "positional"}, "a", "pass", "not_evaluable"),
        ("tool-call-args", {"tool_calls": []}, "a", "fail", "fail"),
        ("tool-call-output", {"tool_outputs": [{"name": "a", "output": "ORDER-1"}]}, "a", "pass", "pass"),
        ("tool-call-args", {"tool_calls": [ORDER, LAST_OUTPUT]}, "a x b", "pass", "not_evaluable"),
        ("tool-call-accuracy", {"reference_tool_calls": [ORDER]}, "a", "pass", "not_evaluable"),
        ("tool-call-accuracy", {"reference_tool_calls": [ORDER]}, "a b", "fail", "fail"),
        ("trajectory", {"tool_calls": [{"name": "a", "args": {}}]}, "b", "fail", "not_evaluable"),
        ("trajectory", {"tool_calls": ["a", "b"]}, "a b", "pass", "pass"),
        ("trajectory", {"tool_calls": ["a", "b"], "match": "exact"}, "a b", "pass", "not_evaluable"),
        ("trajectory", {"tool_calls": ["a", "b"], "match": "unordered"}, "a x", "fail", "fail"),
        ("trajectory", {"tool_calls": ["a", "b"], "match": "unordered"}, "a", "fail", "not_evaluable"),
        ("trajectory", {"forbidden": ["a"]}, "a", "fail", "fail"),
        ("trajectory", {"required": ["a"]}, "a", "pass", "pass"),
        ("tool-case", {"expected_tool": "a"}, "a b", "pass", "pass"),
        ("tool-case", {"expected_tool": "b"}, "a b", "fail", "fail"),
        ("tool-selection", {"expected_tool": "b", "occurrence": "last"}, "a b", "pass", "not_evaluable"),
        ("ragas-tool-call-f1", {"reference_tool_calls": [ORDER]}, "a b", "fail", "fail"),
        ("tool-permission", {"denied_tools": ["pay"]}, "look", "pass", "not_evaluable"),
        ("tool-permission", {"denied_tools": ["pay"]}, "look pay", "fail", "fail"),
        ("abstention", {"should_call_tool": True}, "a", "pass", "pass"),
        ("abstention", {"should_call_tool": False}, "a", "fail", "fail"),
        ("abstention", {"should_call_tool": False}, "", "pass", "not_evaluable"),
        ("loop-repetition", {"repetition_threshold": 2}, "a", "pass", "not_evaluable"),
        ("loop-repetition", {"repetition_threshold": 2}, "a a", "fail", "fail"),
        ("budget", {"max_calls": 1}, "a", "pass", "not_evaluable"),
        ("budget", {"max_calls": 1}, "a a", "fail", "fail"),
        ("args-schema", {"schemas": {"a": {"required": ["id"]}}}, "a", "pass", "not_evaluable"),
        ("args-schema", {"schemas": {"a": {"required": ["x"]}}}, "a", "fail", "fail"),
        ("contains", {"search_text": "Bye"}, "a", "pass", "pass"),
    ],
)
def test_another_evaluator(evaluator: str, written: dict[str, Any], names: str, if_all: str, found: str) -> None:
    assert outcome(evaluator, written, names, known=True) == if_all
    assert outcome(evaluator, written, names) == found


def test_a_call_that_is_judged_by_itself_is_known() -> None:
    calls = made("look pay")
    context: Any = _Context(calls)
    alone = Evidence(calls[1:], trace_context=context, whole_run=Evidence(calls))
    assert unread_call(alone) is None
    assert unread_call(Evidence(calls, trace_context=context)) is not None
    following = Evidence(calls[1:], trace_context=context, whole_run=Evidence(calls), after=calls[0])
    assert unread_call(following) is not None


@each(
    ("source", "stays"),
    [
        ("prompt == 'x'", {True, False}),
        ("calls.all(c, c.failed)", {False}),
        ("calls.exists(c, c.failed)", {True}),
        ("!calls.exists(c, c.failed)", {False}),
        ("calls.exists_one(c, c.failed)", set()),
        ("calls.filter(c, c.failed).all(c, c.name == 'a')", {False}),
        ("calls.filter(c, size(calls) > 1).exists(c, c.name == 'a')", set()),
        ("calls.all(a, calls.all(b, a.name == b.name))", {False}),
        ("calls.all(a, calls.exists(b, a.name == b.name))", set()),
        ("'a' in tools", {True}),
        ("size(calls) > 3", {True}),
        ("3 >= calls.size()", {False}),
        ("size(calls) > size(tools)", set()),
        ("size(handoffs) == 2", set()),
        ("calls[0].name == 'a'", set()),
        ("prompt == 'x' || 'a' in tools", {True}),
        ("calls.all(c, c.failed) && 'a' in tools", set()),
    ],
)
def test_which_results_of_an_expression_stay(source: str, stays: set[bool]) -> None:
    assert CelExpression(source).staying == stays


A, ROME, OSLO = ({"name": "a", "args": args} for args in ({}, {"id": "Rome"}, {"id": "Oslo"}))
LOOSE = {"name": "a", "args": {"id": {"$any": True}}}
RANGES: list[tuple[str, dict[str, Any]]] = [
    *CRITERIA.items(),
    ("tool-call-args", {"tool_calls": []}),
    *(
        ("tool-call-args", {"tool_calls": [LOOSE, ROME, OSLO], "pairing": pairing, "strict": strict})
        for pairing in ("first", "best", "positional")
        for strict in (False, True)
    ),
    ("tool-call-output", {"tool_outputs": [{"name": "a", "output": "Rome"}, {"name": "b", "output": "Oslo"}]}),
    ("tool-call-output", {"tool_outputs": [{"name": "a", "output": "Rome"}], "strict": True}),
    *(
        ("tool-call-accuracy", {"reference_tool_calls": [LOOSE, ROME, A], "pairing": pairing, "mode": mode})
        for pairing in ("first", "best", "positional")
        for mode in ("strict", "flexible")
    ),
    *(
        ("trajectory", {"tool_calls": [LOOSE, ROME, "b"], "match": match, "score": score, "pairing": pairing})
        for match in ("exact", "in_order", "any_order", "unordered", "subset")
        for score in ("binary", "recall", "precision", "f1")
        for pairing in ("first", "best", "positional")
    ),
    ("trajectory", {"tool_calls": [ROME, "b"], "call_credit": "fractional", "score": "recall", "match": "any_order"}),
    ("trajectory", {"tool_calls": [ROME], "match": "unordered", "negate": True}),
    ("trajectory", {"tool_calls": ["a"], "occurrence": "last"}),
    ("trajectory", {"tool_calls": [], "match": "unordered"}),
    ("trajectory", {"tool_calls": [], "score": "f1"}),
    ("trajectory", {"tool_calls": ["a"], "efficiency": {"redundant": "same_name"}}),
    ("trajectory", {"required": ["a"]}),
    ("trajectory", {"required": [["a", "b"]]}),
    ("trajectory", {"forbidden": ["a", ["b", "c"]]}),
    ("trajectory", {"forbidden": [["b", "c"]], "negate": True}),
    ("trajectory", {"allowed": ["a", "b"]}),
    ("trajectory", {"counts": {"a": ["<=", 1]}, "calls": [">=", 2], "steps": ["<=", 3]}),
    ("ragas-tool-call-accuracy", {"reference_tool_calls": [ROME, {"name": "b", "args": {"id": "Oslo"}}]}),
    ("ragas-tool-call-accuracy", {"reference_tool_calls": [ROME, A], "strict_order": False}),
    ("ragas-tool-call-f1", {"reference_tool_calls": [ROME, OSLO, A]}),
    ("tool-selection", {"expected_tool": "a", "occurrence": "last"}),
    ("tool-selection", {"expected_tool": None}),
    ("overall-score", {"expected_tool": None, "expected_params": {"id": "Rome"}}),
    ("param-accuracy", {"expected_params": {"id": "Rome"}, "occurrence": "last"}),
    ("schema-validation", {"parameters_schema": {"required": ["x", "id"]}, "tool": "b"}),
    ("schema-validation", {"parameters_schema": {"required": ["x", "id"]}, "occurrence": "last"}),
    ("tool-call-order", {"tool_calls_order": ["a", "b"], "strict": True}),
    ("tool-permission", {"allowed_tools": ["a"]}),
    ("multi-turn", {"expected_tool": "b", "expected_params": {"id": "Rome"}, "optimal_hops": 1}),
    ("multi-turn", {"expected_tool": "b", "valid_prerequisites": ["a"], "optimal_hops": 3}),
    ("multi-turn", {"expected_tool": None}),
]


def test_further_calls_leave_every_score_within_its_range() -> None:
    """Calls are put between the known ones, none before the unread work, and none of them is known."""
    draw = Random(7)
    wrong = []
    for name, written in RANGES:
        judge = EVALUATORS[name]
        criteria, settings = judged_by(judge, written)
        if judge.with_further_calls is same_score:
            continue  # it reads no calls, or is tested above
        for _ in range(40):
            known = [(draw.choice("abc"), draw.choice(["Rome", "Oslo"])) for _ in range(draw.randrange(4))]
            begins = draw.choice([0, UNREAD])
            alone = [*zip(range(10, 40, 10), known, strict=False)]
            more = alone + [
                (draw.randrange(begins, 60), (draw.choice("abcx"), draw.choice(["Rome", "Oslo", "Bern"])))
                for _ in range(draw.randrange(1, 4))
            ]
            more.sort(key=lambda call: call[0])  # of equal starts, the known one first
            context: Any = _Context([], begins)
            evidence = Evidence(timed(alone), "Hello", "Bye", trace_context=context)
            score = judge.evaluate(evidence, criteria, settings).score
            later = judge.evaluate(Evidence(timed(more), "Hello", "Bye"), criteria, settings).score
            if score is not None and later is not None:
                least, most = judge.with_further_calls(evidence, criteria, settings, score)
                if not least <= later <= most:
                    wrong.append((name, written, alone, more, score, later, (least, most)))
    assert not wrong


def timed(calls: Sequence[tuple[int, tuple[str, str]]]) -> list[ToolCall]:
    """Calls that began then, of these tools, whose id and output are a city."""
    return [build.call(name, {"id": city}, output=city, start_ns=at, end_ns=at + 1) for at, (name, city) in calls]


def judged_by(judge: Any, written: dict[str, Any]) -> tuple[Any, Any]:
    """The criteria and the settings of what a rule says of an evaluator."""
    settings = {key: value for key, value in written.items() if key in judge.Settings.model_fields}
    criteria = judge.read_criteria({key: value for key, value in written.items() if key not in settings})
    return criteria, judge.read_settings(settings)
