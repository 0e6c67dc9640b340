"""Every evaluator's sentences: a row for each outcome, with the calls that lead to it."""

from typing import Any, NamedTuple

TRIP = {"trip": "T-1"}
OTHER_TRIP = {"trip": "T-2"}
SECRET = {"$regex": "(?i)^error"}


class Row(NamedTuple):
    """A case by hand and what is said of it.

    Calls are names, or objects; ``partial``: some of what is expected was found, and the outcome is a fail.
    """

    evaluator: str
    outcome: str
    criteria: dict[str, Any]
    calls: list[Any]
    sentence: str
    settings: dict[str, Any] = {}  # noqa: RUF012, never changed
    answer: str | None = "all fine"


def called(name: str, args: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A call as a case has it."""
    return {"name": name, "args": args or {}, **more}


def _constraint(outcome: str, constraint: dict[str, Any], calls: list[Any], sentence: str) -> Row:
    return Row("constraints", outcome, {"constraints": [constraint]}, calls, sentence)


HOLD, CHARGE = called("hold_seat", TRIP), called("charge_card", TRIP)
BEFORE = {"before": "charge_card", "comes": {"tool": "hold_seat", "where": {"error": False}}, "same": "trip"}
LARGE = {"tool": "pay", "where": {"args": {"sum": {"$gte": 5}}}}
NAMES = {"tool_calls": [{"name": "find"}, {"name": "pay"}]}
FIND_7, PAY_7 = {"name": "find", "args": {"id": 7}}, {"name": "pay", "args": {"id": 7}}
NO_ARGUMENTS = {"name": "find"}

ROWS: list[Row] = [
    # constraints, by word
    _constraint("pass", BEFORE, [HOLD, CHARGE],
        "No violation in 1 check: successful hold_seat comes before every charge_card with the same trip."),
    _constraint("fail", BEFORE, ["find", CHARGE],
        "charge_card (call 2) was made without an earlier successful hold_seat with the same trip."),
    _constraint("partial", BEFORE, [HOLD, CHARGE, called("charge_card", OTHER_TRIP)],
        "1 of 2 checks failed: charge_card (call 3) was made without an earlier successful hold_seat with the same "
        "trip; hold_seat (call 1) does not have the same trip."),
    _constraint("not_evaluable", BEFORE, ["find"], "No constraint applies: charge_card was not called."),
    _constraint("not_evaluable", BEFORE, [HOLD, {"name": "charge_card"}],
        "the arguments of a call were not recorded (charge_card, span 0000000000000002)"),
    _constraint("fail", {"before": "pay", "comes": "check", "same": ["id", "cur"]},
        [called("check", {"id": 1, "cur": "EUR"}), called("pay", {"id": 1})],
        "pay (call 2) was made without an earlier check with the same id and cur; it has no cur."),
    _constraint("fail", {"before": "pay", "comes": "check", "same": ["id", "cur"]},
        [called("check", {"id": 1, "cur": None}), called("pay", {"id": 1, "cur": "EUR"})],
        "pay (call 2) was made without an earlier check with the same id and cur; check (call 1) has no cur."),
    _constraint("fail", {"before": "pay", "comes": "check", "same": ["id", "cur"]},
        [called("check", {"id": 1, "cur": "EUR"}), called("pay")],
        "pay (call 2) was made without an earlier check with the same id and cur; it has no id and no cur."),
    _constraint("pass", {"after": "reserve", "comes": "release"}, ["reserve", "release"],
        "No violation in 1 check: release comes after every reserve."),
    _constraint("fail", {"after": "reserve", "comes": "release"}, ["release", "reserve"],
        "reserve (call 2) was not followed by release; release (call 1) came before it."),
    _constraint("pass", {"right_after": "log_in", "comes": "check"}, ["log_in", "check"],
        "No violation in 1 check: check comes right after every log_in."),
    _constraint("fail", {"right_after": "log_in", "comes": "check"}, ["log_in", "find"],
        "log_in (call 1) was not directly followed by check."),
    _constraint("pass", {"right_before": "pay", "comes": "check"}, ["check", "pay"],
        "No violation in 1 check: check comes right before every pay."),
    _constraint("fail", {"right_before": "pay", "comes": "check"}, ["check", "find", "pay"],
        "pay (call 3) was not directly preceded by check; check (call 1) came before it."),
    _constraint("pass", {"between_two": "refund", "comes": "approve"}, ["approve", "refund"],
        "No violation in 1 check: a new approve comes before every refund."),
    _constraint("partial", {"between_two": "refund", "comes": "approve"}, ["approve", "refund", "refund"],
        "1 of 2 checks failed: refund (call 3) was made without an earlier approve of its own; approve (call 1) "
        "belongs to an earlier call."),
    _constraint("pass", {"if": "refund", "also": "notify"}, ["notify", "refund"],
        "No violation in 1 check: notify comes before or after every refund."),
    _constraint("fail", {"if": "refund", "also": "notify"}, ["refund"], "refund (call 1) was made without notify."),
    _constraint("pass", {"never": "drop_*"}, ["find"], "No violation in 1 check: drop_* is never called."),
    _constraint("fail", {"never": "drop_*"}, ["drop_table"], "drop_table (call 1) was made, and drop_* is forbidden."),
    _constraint("fail", {"never": {"where": {"args": {"$secret": True}}}}, [called("send", {"t": "ghp_" + "a1B2" * 9})],
        "send (call 1) was made, and any tool (a secret in its arguments) is forbidden."),
    # calls of which it cannot be read whether they are meant are not said to be
    _constraint("fail", {"never": LARGE}, [called("pay", {"sum": 9}), {"name": "pay"}],
        "pay (call 1) was made, and pay (args.sum as in the rule) is forbidden."),
    _constraint("fail", {"at_most": 1, "of": LARGE},
        [called("pay", {"sum": 9}), {"name": "pay"}, called("pay", {"sum": 7})],
        "pay (args.sum as in the rule) was called at least twice, where at most 1 call is allowed."),
    _constraint("fail", {"at_least": 3, "of": LARGE}, [called("pay", {"sum": 9}), {"name": "pay"}],
        "pay (args.sum as in the rule) was called at most twice, where at least 3 calls are required."),
    _constraint("fail", {"not_both": [LARGE, "ship"]}, [{"name": "pay"}, called("pay", {"sum": 9}), "ship"],
        "pay (call 2) and ship (call 3) were both made, where only one is allowed."),
    _constraint("fail", {"at_most": 1, "of": "pay", "same": "trip"},
        [{"name": "pay"}, called("pay", TRIP), called("pay", TRIP)],
        "pay was called more than once with the same trip (calls 2, 3)."),
    _constraint("pass", {"at_most": 1, "of": "pay"}, ["pay"], "No violation in 1 check: pay is called at most once."),
    _constraint("fail", {"at_most": 1, "of": "pay"}, ["pay", "pay"],
        "pay was called twice, where at most 1 call is allowed."),
    _constraint("fail", {"at_most": 1, "of": "pay", "same": "trip"}, [called("pay", TRIP), called("pay", TRIP)],
        "pay was called more than once with the same trip (calls 1, 2)."),
    _constraint("pass", {"at_least": 2, "of": "find"}, ["find", "find"],
        "No violation in 1 check: find is called at least twice."),
    _constraint("fail", {"at_least": 2, "of": "find"}, [], "find was not called, where at least 2 calls are required."),
    _constraint("pass", {"exactly": 1, "of": "find"}, ["find"],
        "No violation in 1 check: find is called exactly once."),
    _constraint("fail", {"exactly": 1, "of": "find"}, ["find"] * 3,
        "find was called 3 times, where exactly 1 call is required."),
    _constraint("pass", {"not_both": ["refund", "ship"]}, ["ship"],
        "No violation in 1 check: refund and ship are never both called."),
    _constraint("fail", {"not_both": ["refund", "ship"]}, ["refund", "ship"],
        "refund (call 1) and ship (call 2) were both made, where only one is allowed."),
    _constraint("pass", {"first": "log_in"}, ["log_in"], "No violation in 1 check: the first call is log_in."),
    _constraint("fail", {"first": "log_in"}, ["pay"], "the first call was pay, where log_in was required."),
    _constraint("pass", {"last": "log_out"}, ["log_out"], "No violation in 1 check: the last call is log_out."),
    _constraint("fail", {"last": "log_out"}, [], "no call was made, where log_out was required."),
    # trajectories and sequences
    Row("trajectory", "pass", NAMES, ["find", "pay"], "The calls are as expected (any_order, 2 expected calls).",
        {"match": "any_order"}),
    Row("trajectory", "fail", NAMES, ["find", "drop"],
        "1 of 2 expected calls were made (unordered); missing: pay; unexpected: drop.", {"match": "unordered"}),
    Row("trajectory", "pass", {"calls": [">=", 1]}, [called("find"), called("find", error="no")],
        "1 of 2 calls failed; 1 call (expected >= 1).", {"include_failed": False}),
    Row("trajectory", "pass", {"forbidden": ["drop"]}, ["find"], "Not called: drop."),
    Row("trajectory", "fail", {"forbidden": ["drop"]}, ["drop"], "forbidden but called: drop."),
    Row("trajectory", "pass", {"tool_calls": [{"name": "drop"}]}, ["find"], "None of 1 call is forbidden.",
        {"negate": True, "match": "any_order"}),
    Row("trajectory", "fail", {"tool_calls": [{"name": "drop"}]}, ["drop"], "A forbidden call was made: drop.",
        {"negate": True, "match": "any_order"}),
    Row("tool-call-order", "pass", {"tool_calls_order": ["find", "pay"]}, ["find", "x", "pay"],
        "All 2 expected calls were made in the expected order."),
    Row("tool-call-order", "partial", {"tool_calls_order": ["find", "pay"]}, ["find"],
        "1 of 2 expected calls were made in the expected order; missing: pay."),
    Row("tool-call-order", "fail", {"tool_calls_order": ["find"]}, ["pay"], "Call 1 was pay, where find was expected.",
        {"strict": True}),
    Row("partial-order", "pass", {"steps": ["find", "pay"]}, ["find", "pay"],
        "All steps were made in an allowed order."),
    Row("partial-order", "partial", {"steps": ["find", "pay", "mail"]}, ["pay", "find"],
        "1 of 3 steps were made; missing: mail; out of order: find."),
    Row("tool-call-count", "pass", {"tool_calls_count": {"find": ["<=", 2]}}, ["find"],
        "find was called once (expected at most 2 times)."),
    Row("tool-call-count", "fail", {"tool_calls_count": {}}, ["find"], "No counts are expected, but 1 call was made."),
    Row("tool-call-count", "partial", {"tool_calls_count": {"find": ["<=", 2], "pay": ["=", 1]}}, ["find"],
        "1 of 2 listed tools were called as often as expected; pay was called 0 times (expected exactly 1 time)."),
    # arguments and outputs
    Row("tool-call-args", "pass", {"tool_calls": [FIND_7]}, [called("find", {"id": 7})],
        "The expected call was made with the expected arguments."),
    Row("tool-call-args", "partial", {"tool_calls": [FIND_7, PAY_7, {"name": "mail", "args": {}}]},
        [called("find", {"id": 7}), called("pay", {"id": 8})],
        "1 of 3 expected calls were made with the expected arguments; missing: mail; mismatched: pay args.id "
        "(different)."),
    Row("tool-call-args", "not_evaluable", {"tool_calls": [FIND_7]}, [NO_ARGUMENTS],
        "the arguments of a call were not recorded (find, span 0000000000000001)"),
    Row("tool-call-output", "pass", {"tool_outputs": [{"name": "find", "output": "ok"}]}, [called("find", output="ok")],
        "The expected call was made with the expected output."),
    Row("tool-call-output", "fail", {"tool_outputs": [{"name": "find", "output": "ok"}]}, [called("find", output="no")],
        "0 of 1 expected call was made with the expected output; mismatched: find output (different)."),
    Row("args-schema", "pass", {"schemas": {"find": {"required": ["id"]}}}, [called("find", {"id": 7})],
        "The arguments of 1 call fit the schema of the tool."),
    Row("args-schema", "partial", {"schemas": {"find": {"required": ["id"]}}}, [called("find", {"id": 7}), "find"],
        "The arguments of 1 of 2 calls do not fit the schema of the tool: find."),
    Row("args-schema", "not_evaluable", {"schemas": {"find": {}}}, ["pay"],
        "No schema is known for the called tools: pay."),
    Row("schema-validation", "pass", {"parameters_schema": {"properties": {"id": {}}}}, [called("find", {"id": 7})],
        "The arguments fit the schema."),
    Row("schema-validation", "fail", {"parameters_schema": {"properties": {"id": {}}, "required": ["id"]}},
        [called("find", {"key": 7})], "The arguments do not fit the schema: missing id; unknown key."),
    Row("schema-validation", "not_evaluable", {"parameters_schema": {"properties": {"id": {}}}}, [],
        "No call has arguments to compare with the schema."),
    Row("param-accuracy", "pass", {"expected_params": {"id": 7}}, [called("find", {"id": 7})],
        "All parameters are as expected."),
    Row("param-accuracy", "partial", {"expected_params": {"id": 7, "day": 1}}, [called("find", {"id": 7, "day": 2})],
        "Wrong parameters: day."),
    # single calls, and whole cases
    Row("tool-selection", "pass", {"expected_tool": "find"}, ["find"], "find was called, as expected."),
    Row("tool-selection", "fail", {"expected_tool": "find"}, ["pay"], "pay was called, where find was expected."),
    Row("tool-selection", "fail", {"expected_tool": "find"}, [], "no call was made, where find was expected."),
    Row("overall-score", "pass", {"expected_tool": "find", "expected_params": {"id": 7}}, [called("find", {"id": 7})],
        "find was called, as expected."),
    Row("overall-score", "partial", {"expected_tool": "find", "expected_params": {"id": 7}}, ["find"],
        "find was called, as expected; wrong parameters: id."),
    Row("tool-case", "pass", {"expected_tool": None, "expected_params": {}}, [], "no call was made, as expected."),
    Row("tool-case", "fail", {"expected_tool": "find", "expected_params": {}}, ["pay"],
        "pay was called, where find was expected."),
    Row("multi-turn", "pass", {"expected_tool": "pay", "expected_params": {}, "optimal_hops": 1}, ["pay"],
        "at the end, pay was called, as expected."),
    Row("multi-turn", "fail", {"expected_tool": "pay", "expected_params": {}, "optimal_hops": 1}, [],
        "No call was made."),
    Row("multi-turn", "partial", {"expected_tool": "pay", "expected_params": {}, "optimal_hops": 1},
        ["find", "find", "pay"],
        "at the end, pay was called, as expected; 3 calls where 1 is enough; called again at once: find; "
        "detours: find."),
    # counterparts of other systems
    Row("tool-call-accuracy", "pass", {"reference_tool_calls": [{"name": "find", "args": {}}]}, ["find"],
        "The reference call was made, and no other."),
    Row("tool-call-accuracy", "partial", {"reference_tool_calls": [{"name": "find", "args": {}}]},
        ["find", "pay"], "1 of 2 calls matches the 1 reference call."),
    Row("ragas-tool-call-accuracy", "pass", {"reference_tool_calls": [{"name": "find", "args": {}}]}, ["find"],
        "The reference call was made with the expected arguments."),
    Row("ragas-tool-call-accuracy", "fail", {"reference_tool_calls": [{"name": "find", "args": {}}]}, ["pay"],
        "The tools called, or their order, differ from the reference."),
    Row("ragas-tool-call-accuracy", "fail", {"reference_tool_calls": [{"name": "find", "args": {"id": 7}}]},
        [called("find", {"id": 8})], "The right tools were called; 1 call with other arguments: find."),
    Row("ragas-tool-call-f1", "pass", {"reference_tool_calls": [{"name": "find", "args": {}}]}, ["find"],
        "1 of 1 call matches the 1 reference call."),
    Row("ragas-tool-call-f1", "partial",
        {"reference_tool_calls": [{"name": "find", "args": {}}, {"name": "pay", "args": {}}]}, ["find"],
        "1 of 1 call matches the 2 reference calls; missing: pay."),
    # answers
    Row("contains", "pass", {"search_text": "fine"}, [], 'The answer contains "fine".'),
    Row("contains", "fail", {"search_text": "done"}, [], 'The answer does not contain "done".'),
    Row("contains", "pass", {"search_text": SECRET}, [], "The answer contains nothing forbidden.", {"negated": True}),
    Row("contains", "fail", {"search_text": "fine"}, [], 'The answer contains "fine", which is forbidden.',
        {"negated": True}),
    Row("contains", "not_evaluable", {"search_text": "fine"}, [], "the final answer cannot be read", answer=None),
    Row("exact-match", "pass", {"expected_output": "all fine"}, [], "The answer equals the expected one."),
    Row("exact-match", "fail", {"expected_output": "done"}, [], "The answer differs from the expected one."),
    Row("exact-match", "pass", {"expected_output": "done"}, [], "The answer differs from the forbidden one.",
        {"negated": True}),
    Row("exact-match", "fail", {"expected_output": {"status": 1}}, [], "The answer has no status.",
        {"target_output_key": "status"}),
    Row("json-similarity", "pass", {"expected_output": {"a": 1}}, [], "1.00 of 1 expected value matches.",
        answer='{"a": 1}'),
    Row("json-similarity", "partial", {"expected_output": {"a": 1, "b": 2}}, [], "1.00 of 2 expected values match.",
        answer='{"a": 1}'),
    Row("grounded-answer", "pass", {}, [called("find", output="It costs 750 euros")],
        "The value in the answer comes from the prompt or an output.", answer="It costs 750."),
    Row("grounded-answer", "fail", {}, [called("find", output="It costs 750 euros")],
        "1 number of 2 values in the answer comes from neither the prompt nor an output.",
        answer="It costs 750, or 812."),
    Row("grounded-answer", "not_evaluable", {}, ["find"], "The answer contains no value to check."),
    # behaviour
    Row("abstention", "pass", {"should_call_tool": False}, [], "No tool was called, as expected."),
    Row("abstention", "fail", {"should_call_tool": False}, ["find", "find"],
        "2 calls were made, where no tool should be called."),
    Row("budget", "pass", {"max_calls": 3}, ["find"], "Within budget: 1 call (limit 3)."),
    Row("budget", "partial", {"max_calls": 1, "max_errors": 0}, ["find", "pay"], "Over budget: 2 calls (limit 1)."),
    Row("budget", "not_evaluable", {"max_tokens": 9}, ["find"], "Not recorded: tokens."),
    Row("condition", "pass", {"expression": "size(calls) == 1"}, ["find"], "The condition is true (1 call)."),
    Row("condition", "fail", {"expression": 'calls[0].name == "pay"'}, ["find"],
        "The condition is false; it read calls[0].name."),
    Row("condition", "not_evaluable", {"expression": "tokens < 5"}, ["find"], "no tokens were recorded"),
    Row("data-flow", "pass", {"returned_by": "read_mail", "given_to": "pay"},
        [called("read_mail", output="DE89 3704"), called("pay", {"to": "Ann Smith"})],
        "No value returned by read_mail was passed to pay."),
    Row("data-flow", "fail", {"returned_by": "read_mail", "given_to": "pay"},
        [called("read_mail", output="pay DE893704004"), called("pay", {"to": "DE893704004"})],
        "A value returned by read_mail (call 1) was passed to pay (call 2) as to."),
    Row("loop-repetition", "pass", {}, ["find", "find"],
        "No call was made 3 or more times with the same arguments."),
    Row("loop-repetition", "fail", {}, ["find"] * 4, "The same call was made 4 times: find."),
    Row("tool-permission", "pass", {}, ["find", "find"], "All 2 calls were allowed.", {"allowed_tools": ["find"]}),
    Row("tool-permission", "partial", {}, ["find", "drop"], "1 of 2 calls were not allowed: drop.",
        {"allowed_tools": ["find"]}),
    Row("tool-permission", "not_evaluable", {}, ["find"], "The trace has no tool definitions.",
        {"declared_only": True}),
]  # fmt: skip
