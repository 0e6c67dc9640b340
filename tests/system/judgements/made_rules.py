"""Rules for the made traces, drawn by number: every evaluator, with every kind of clause, matcher and setting."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from pydantic import ValidationError

from system.judgements.made_traces import AGENTS, AMOUNTS, IDS, PROMPTS, TOOLS, drawn_call
from tracegrade.rule.rule import Rule

Item = dict[str, Any]


class Draw(Random):
    """Draws for the rules of one group of traces."""

    def __init__(self, seed: str, group: int) -> None:
        super().__init__(seed)
        self.group = group

    def call(self) -> tuple[str, Item]:
        """A call as traces of the group make it."""
        return drawn_call(self, self.group)

    def tool(self) -> str:
        """A tool, most often one that traces of the group call."""
        return self.call()[0] if self.random() < 0.9 else "refund"


NAMES = (*TOOLS, "transfer_to_billing", "refund")
VALUE_WORDS = ("exact", "case_insensitive", "contains", "glob", "regex", "similarity")
PAIRINGS = ("first", "best", "positional")
MORE_RULES = 10


def made_rules(number: int) -> Iterator[Rule]:
    """The rules with this number: one for each evaluator, and some of each further form.

    A draw that the rule language refuses, such as constraints that contradict each other, is drawn again.
    """
    for name, draws in EVALUATORS.items():
        yield _accepted(number, name, lambda draw, draws=draws, name=name: {"evaluate": [_item(name, draws, draw)]})
    for further in range(MORE_RULES):
        yield _accepted(number, f"more-{further}", _further)


def _accepted(group: int, name: str, written: Callable[[Draw], Item]) -> Rule:
    draw = Draw(f"rule {group} {name}", group)
    while True:
        try:
            return Rule.model_validate(
                {"id": f"{name}-{group}", "incomplete": "count", **_about(draw), **written(draw)}
            )
        except ValidationError:
            continue


def _about(draw: Draw) -> Item:
    """What a rule judges."""
    about: Item = {"scope": draw.choices(["agent", "trace", "tool-call", "session"], [5, 3, 1, 2])[0]}
    if draw.random() < 0.3:
        about["match"] = _clauses(draw)
    if draw.random() < 0.15:
        about["unless"] = _clauses(draw)
    if draw.random() < 0.1:
        about["sample"] = {"share": 0.5, "keep_failures": draw.random() < 0.5}
    if draw.random() < 0.1 and about["scope"] == "agent":
        about["depth"] = 1
    return about


def _clauses(draw: Draw) -> Item:
    return draw.choice(
        [
            {"tools": [draw.tool()]},
            {"tools": ["*nd", "pay"]},
            {"agent": draw.choice(AGENTS)},
            {"service": "shop"},
            {"prompt": [draw.choice(PROMPTS), {"$regex": "B-7"}]},
            {"attributes": {"tier": "gold"}},
            {"cel": draw.choice(_EXPRESSIONS)},
            {"agent": "*", "tools": "*", "release": "1.0"},
        ]
    )


def _further(draw: Draw) -> Item:
    """Several evaluations, `when` and `then`, cases."""
    form = draw.choice(["several", "then", "then", "cases"])
    if form == "several":
        return {
            "evaluate": [
                {**_drawn(draw), "name": f"part-{place}", "threshold": draw.choice([1.0, 0.5])} for place in range(3)
            ]
        }
    if form == "then":
        return {"when": _side(draw), "then": [{**_drawn(draw), "name": "then"}]}
    return {
        "cases": [
            {"id": f"case-{place}", "match": {"prompt": prompt}, **_drawn(draw)} for place, prompt in enumerate(PROMPTS)
        ]
    }


def _drawn(draw: Draw) -> Item:
    name = draw.choice(list(EVALUATORS))
    return _item(name, EVALUATORS[name], draw)


def _item(name: str, draws: Callable[[Draw], Item], draw: Draw) -> Item:
    item = {"evaluator": name, **draws(draw)}
    if draw.random() < 0.3:
        item["threshold"] = draw.choice([0.5, 0.8, 0.0])
    return item


def _maybe(draw: Draw, **settings: Sequence[Any]) -> Item:
    """Some of these settings, each one of its values."""
    return {name: draw.choice(values) for name, values in settings.items() if draw.random() < 0.35}


def _matcher(draw: Draw, key: str) -> Any:
    return draw.choice(
        [
            {"$any": True},
            {"$absent": True},
            {"$type": draw.choice(["string", "number", ["integer", "null"]])},
            {"$one_of": [draw.choice(IDS), {"$gte": 20}, {"$absent": True}]},
            {"$regex": draw.choice(["^A-", "[0-9]", "@shop"])},
            {"$glob": draw.choice(["A-*", "*@shop.test"])},
            {"$contains": draw.choice(["a", "1"])},
            {"$case_insensitive": draw.choice(["a-1", "ANN@SHOP.TEST"])},
            {"$similarity": {"text": draw.choice(IDS), "at_least": 0.6}},
            {"$numeric_tolerance": {"value": draw.choice(AMOUNTS), "epsilon": 1}},
            {"$gt": 5, "$lte": 120},
            {"$length": {"$lte": 3}},
            {"$schema": {"type": draw.choice(["string", "integer", "object"])}},
            {"$secret": True},
            {
                "$from": draw.choice(
                    [f"find.output.{key}", "find.output", "prompt", "*.output", f"hold.arguments.{key}"]
                )
            },
            {"$from": {"source": f"find.output.{key}", "call": draw.choice(["first", "last"])}},
        ]
    )


def _value(draw: Draw, key: str, literal: Any) -> Any:
    return _matcher(draw, key) if draw.random() < 0.35 else literal


def _arguments(draw: Draw, made: Item) -> Item:
    some = draw.random() < 0.4
    return {key: _value(draw, key, value) for key, value in made.items() if not some or draw.random() < 0.5}


def _call(draw: Draw, *, arguments: float = 0.8) -> Item:
    tool, made = draw.call()
    return {"name": tool, **({"args": _arguments(draw, made)} if draw.random() < arguments else {})}


def _calls(draw: Draw, **kwargs: float) -> list[Item]:
    return [_call(draw, **kwargs) for _ in range(draw.choice([1, 2, 2, 3]))]


def _outputs(draw: Draw) -> list[Item]:
    return [
        {"name": draw.tool(), "output": _value(draw, "status", draw.choice(["paid", "sent", {"held": True}, 0]))}
        for _ in range(draw.choice([1, 2]))
    ]


def _count(draw: Draw) -> list[Any]:
    return [draw.choice(["=", "==", "!=", ">", "<", ">=", "<="]), draw.choice([0, 1, 2, 3])]


def _side(draw: Draw) -> Any:
    tool = draw.choice([*NAMES, "*", "p*"])
    if draw.random() < 0.5:
        return tool
    where = draw.choice(
        [
            {"args": {"id": _value(draw, "id", draw.choice(IDS))}},
            {"output": {"status": "paid"}},
            {"error": draw.random() < 0.5},
            {"error": {"type": "TimeoutError"}},
            {"agent": draw.choice(AGENTS)},
        ]
    )
    return {"tool": tool, "where": where}


def _constraint(draw: Draw) -> Item:
    one, other = _side(draw), _side(draw)
    paired = {} if draw.random() < 0.5 else draw.choice([{"same": "id"}, {"within": "50ms"}, {"same": ["id", "to"]}])
    return draw.choice(
        [
            {"before": one, "comes": other, **paired},
            {"after": one, "comes": other, **paired},
            {"right_after": one, "comes": other, **paired},
            {"right_before": one, "comes": other, **paired},
            {"before_each": one, "comes_a_new": other, **paired},
            {"if": one, "also": other, **paired},
            {"never": one},
            {"at_most": draw.choice([1, 2]), "of": one},
            {"at_most": 1, "of": one, "same": "id"},
            {"at_least": draw.choice([1, 2]), "of": one},
            {"exactly": draw.choice([0, 1]), "of": one},
            {"not_both": [one, other]},
            {"first": one},
            {"last": one},
        ]
    )


def _step(draw: Draw) -> Any:
    return draw.choice(
        [
            draw.tool(),
            {"tool": draw.tool()},
            {"tool": draw.tool(), "args": {"id": _value(draw, "id", draw.choice(IDS))}},
            {"tool": draw.tool(), "optional": True},
            {"parallel": [draw.tool(), draw.tool()]},
            {"choice": [draw.tool(), draw.tool()]},
        ]
    )


def _params(draw: Draw) -> Item:
    tool, made = draw.call()
    return {
        "expected_tool": draw.choice([tool, [tool, draw.tool()], tool, None]),
        "expected_params": _arguments(draw, made),
    }


def _case_settings(draw: Draw) -> Item:
    modes = ["exact", "case_insensitive", "contains", "numeric_tolerance", "regex"]
    return _maybe(draw, scoring_config=[{"mode": mode} for mode in modes], param_scoring=["exact", "contains", "fuzzy"])


def _answer_settings(draw: Draw) -> Item:
    return _maybe(draw, line_by_line_evaluator=[True, False], target_output_key=["*", "status"])


_EXPRESSIONS = (
    "size(calls) > 1",
    'calls.all(c, c.name != "pay" || c.arguments.amount <= 20)',
    'calls.exists(c, c.name == "find" && c.output.total > 5)',
    'prompt.contains("A-1") || answer.contains("A-1")',
    "calls.exists(c, c.failed)",
    'size(handoffs) == 0 || handoffs[0].to == "billing"',
    'trace.complete && !("refund" in tools)',
    "calls.all(c, c.attempt < 2)",
)
_SCHEMAS = (
    {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "pattern": "^A"}}},
    {"properties": {"amount": {"type": "integer", "maximum": 20}}, "additionalProperties": False},
)

EVALUATORS: dict[str, Callable[[Draw], Item]] = {
    "tool-call-order": lambda draw: {
        "tool_calls_order": [draw.tool() for _ in range(draw.choice([1, 2, 3]))],
        **_maybe(draw, strict=[True], concurrency=["batches", "sequential"]),
    },
    "tool-call-args": lambda draw: {
        "tool_calls": [{"args": {}, **call} for call in _calls(draw)],
        **_maybe(draw, strict=[True], subset=[True], pairing=PAIRINGS, values=VALUE_WORDS),
    },
    "tool-call-output": lambda draw: {
        "tool_outputs": _outputs(draw),
        **_maybe(draw, strict=[True], subset=[True], pairing=PAIRINGS),
    },
    "tool-call-count": lambda draw: {
        "tool_calls_count": {draw.tool(): _count(draw) for _ in range(2)},
        **_maybe(draw, strict=[True]),
    },
    "tool-call-accuracy": lambda draw: {
        "reference_tool_calls": _calls(draw),
        **_maybe(
            draw,
            mode=["strict", "flexible"],
            argument_match_threshold=[0.3, 0.5],
            pairing=PAIRINGS,
            values=VALUE_WORDS,
        ),
    },
    "trajectory": lambda draw: {
        **_maybe(
            draw,
            tool_calls=[_calls(draw, arguments=0.6), []],
            counts=[{draw.tool(): _count(draw)}],
            calls=[_count(draw)],
            failed_calls=[_count(draw)],
            steps=[_count(draw)],
            required=[[draw.tool()], [["find", "pay"]]],
            allowed=[["find", "pay", "send", "hold"]],
            forbidden=[["cancel"], [["pay", "pay"]]],
        ),
        "match": draw.choice(["exact", "in_order", "any_order", "unordered", "subset"]),
        **_maybe(
            draw,
            args=["exact", "superset", "subset", "ignore"],
            ignore_keys=[["to"]],
            defaults=[{"seats": 1}],
            names=["exact", "case_insensitive", "glob", "normalized"],
            score=["binary", "recall", "precision", "f1"],
            call_credit=["binary", "fractional", {"threshold": 0.5}],
            pairing=PAIRINGS,
            occurrence=["any", "first", "last", 0],
            concurrency=["batches", "sequential"],
            include_failed=[False],
            efficiency=[{"optimal_calls": 2, "redundancy_penalty": 0.1, "detour_penalty": 0.1}],
            negate=[True],
            on_empty=["score", "skip"],
        ),
    },
    "partial-order": lambda draw: {
        "steps": [_step(draw) for _ in range(draw.choice([1, 2, 3]))],
        **_maybe(draw, extra=["ignore", "count"], concurrency=["batches", "sequential"]),
    },
    "ragas-tool-call-accuracy": lambda draw: {
        "reference_tool_calls": [{"args": {}, **call} for call in _calls(draw)],
        **_maybe(draw, strict_order=[True, False]),
    },
    "ragas-tool-call-f1": lambda draw: {"reference_tool_calls": _calls(draw)},
    "tool-selection": lambda draw: {
        "expected_tool": draw.choice([draw.tool(), ["pay", "send"], None]),
        **_maybe(draw, occurrence=["first", "last"]),
    },
    "param-accuracy": lambda draw: {
        "expected_params": _arguments(draw, draw.call()[1]),
        **_case_settings(draw),
        **_maybe(draw, occurrence=["first", "last"]),
    },
    "overall-score": lambda draw: {
        **_params(draw),
        **_case_settings(draw),
        **_maybe(draw, occurrence=["first", "last"]),
    },
    "tool-case": lambda draw: {**_params(draw), **_case_settings(draw)},
    "multi-turn": lambda draw: {
        **_params(draw),
        **_case_settings(draw),
        **_maybe(draw, valid_prerequisites=[["find"], ["find", "hold"]], optimal_hops=[1, 3]),
    },
    "abstention": lambda draw: {"should_call_tool": draw.random() < 0.5},
    "schema-validation": lambda draw: {
        "parameters_schema": draw.choice(_SCHEMAS),
        **_maybe(draw, tool=list(TOOLS), occurrence=["first", "last"]),
    },
    "exact-match": lambda draw: {
        "expected_output": _value(draw, "status", draw.choice(["A-1 is paid: 20 EUR.", {"status": "paid"}])),
        **_answer_settings(draw),
        **_maybe(draw, negated=[True], case_sensitive=[True]),
    },
    "contains": lambda draw: {
        "search_text": draw.choice(["paid", "A-1", {"$from": "find.output.id"}, {"$from": "pay.arguments.id"}]),
        **_answer_settings(draw),
        **_maybe(draw, negated=[True], case_sensitive=[True]),
    },
    "json-similarity": lambda draw: {
        "expected_output": draw.choice(["A-1 is paid", {"status": "paid", "amount": 20}]),
        **_answer_settings(draw),
    },
    "grounded-answer": lambda draw: _maybe(
        draw, kinds=[["amount"], ["id", "number"]], names=[["Ann"]], smallest=[1], sums=[False], vacuous=["pass"]
    ),
    "loop-repetition": lambda draw: _maybe(
        draw, repetition_threshold=[2, 3], count_retries=[False], failed_only=[True]
    ),
    "tool-permission": lambda draw: draw.choice(
        [
            {"allowed_tools": ["find", "hold", "pay"]},
            {"denied_tools": ["cancel", "refund"]},
            {"denied_tools": ["C*"], "names": draw.choice(["glob", "normalized", "case_insensitive"])},
            {"declared_only": True},
        ]
    ),
    "args-schema": lambda draw: {
        "schemas": {draw.tool(): draw.choice(_SCHEMAS) for _ in range(2)},
        **_maybe(draw, from_trace=[False], unknown_tools=["skip", "invalid"]),
    },
    "budget": lambda draw: draw.choice(
        [
            {"max_calls": draw.choice([0, 2, 4])},
            {"max_retries": 0, "max_errors": 0},
            {"max_duration": "100ms"},
            {"max_tokens": 200},
            {"max_cost": 0.001},
        ]
    ),
    "data-flow": lambda draw: {
        "returned_by": _side(draw),
        "given_to": _side(draw),
        **_maybe(
            draw,
            arguments=[["to"], ["id"]],
            looked_for=["argument", "output"],
            min_length=[1, 3],
            unless_in_prompt=[True],
        ),
    },
    "handoffs": lambda draw: {
        "max_handoffs": draw.choice([0, 1]),
        **_maybe(
            draw,
            may_pass_to=[{"support": ["billing"]}, {"billing": "support"}],
            order=[["support", "billing"]],
            max_in_a_row=[1],
            seen_in=[["calls"], ["calls", "spans"]],
        ),
    },
    "constraints": lambda draw: {
        "constraints": [_constraint(draw) for _ in range(draw.choice([1, 1, 2]))],
        **_maybe(draw, vacuous=["pass"], concurrency=["batches", "sequential"]),
    },
    "condition": lambda draw: {"expression": draw.choice([*_EXPRESSIONS, "tokens < 300", "cost < 0.01"])},
}
