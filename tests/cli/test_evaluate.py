import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from build import each
from tracegrade.cli import main

_ORDER = '{"tool_calls_order": ["search", "book"]}'


def _run(*arguments: str, lines: str | None = None) -> Result:
    return CliRunner().invoke(main, ["evaluate", *arguments], input=lines, catch_exceptions=False)


def _batch(*cases: Any, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    lines = "".join((case if isinstance(case, str) else json.dumps(case)) + "\n" for case in cases)
    result = _run("--batch", "-", *options, lines=lines)
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_one_case_is_judged_as_json() -> None:
    result = _run("tool-call-order", "--criteria", _ORDER, "--calls", '[{"name": "search"}]', "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "id": None,
        "outcome": "fail",
        "score": 0.5,
        "details": {
            "actual_tool_calls_order": ["search"],
            "expected_tool_calls_order": ["search", "book"],
            "lcs": ["search"],
            "lcs_length": 1,
        },
        "explanation": "1 of 2 expected calls were made in the expected order; missing: book.",
        "error": None,
    }


def test_one_case_is_judged_as_a_table() -> None:
    result = _run("tool-call-order", "--criteria", _ORDER, "--calls", '[{"name": "search"}]', "--threshold", "0.5")
    assert result.exit_code == 0
    assert "✓ pass" in result.stdout
    assert "missing: book" in result.stdout


def test_options_are_read_from_files(tmp_path: Path) -> None:
    calls = tmp_path / "calls.json"
    calls.write_text('[{"name": "search"}, {"name": "book"}]')
    result = _run("tool-call-order", "--criteria", _ORDER, "--calls", f"@{calls}", "--format", "json")
    assert json.loads(result.stdout)["score"] == 1.0


def test_calls_are_read_from_raw_spans() -> None:
    spans = [
        {"name": "later", "start": 2, "end": 3, "attributes": {"tool.name": "book"}},
        {"name": "model", "start": 0, "end": 1, "attributes": {}},
        {"name": "sooner", "start": 1, "end": 2, "attributes": {"tool.name": "search"}},
    ]
    result = _run(
        "tool-call-order",
        *("--criteria", _ORDER, "--config", '{"strict": true}', "--spans", json.dumps(spans), "--format", "json"),
    )
    assert json.loads(result.stdout)["score"] == 1.0


@each(
    ("arguments", "message"),
    [
        ((), "expected an EVALUATOR"),
        (("tool-call-order", "--criteria", _ORDER), "expected --calls or --spans"),
        (("tool-call-order", "--calls", "[{]"), "--calls: not JSON"),
        (("tool-call-order", "--calls", "[NaN]"), "--calls: not JSON: NaN is not JSON"),
        (("tool-call-order", "--calls", "[" * 100_000), "--calls: not JSON: nested too deep"),
        (("tool-call-order", "--calls", "@/nowhere"), "--calls: cannot read /nowhere"),
        (("tool-call-order", "--calls", "[]"), "no_criteria: tool-call-order: no evaluation criteria"),
        (("tool-call-order", "--calls", "{}"), "invalid_case: calls: expected a list of objects"),
        (("tool-call-odor", "--calls", "[]"), "did you mean 'tool-call-order'?"),
        (("tool-call-order", "--config", '{"strct": 1}', "--calls", "[]"), "did you mean 'strict'?"),
        (("tool-call-order", "--batch", "-"), "leave EVALUATOR and the JSON options out"),
    ],
)
def test_what_cannot_be_judged_is_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    result = _run(*arguments, lines="")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_bad_line_does_not_stop_a_batch() -> None:
    good = {"id": "good", "evaluator": "tool_call_order", "criteria": json.loads(_ORDER), "calls": []}
    answers = _batch("{", "[1]", {"id": 1}, {**good, "evaluator": "astrology"}, {**good, "criteria": {}}, "", good)
    assert [(answer["id"], answer["outcome"], (answer["error"] or {}).get("type")) for answer in answers] == [
        (None, "error", "invalid_case"),
        (None, "error", "invalid_case"),
        (1, "error", "invalid_case"),
        ("good", "error", "unknown_evaluator"),
        ("good", "error", "invalid_criteria"),
        ("good", "fail", None),
    ]
    assert "line 1 is not JSON" in answers[0]["error"]["message"]
    assert all(answer.keys() == {"id", "outcome", "score", "details", "explanation", "error"} for answer in answers)


def test_a_crash_inside_an_evaluator_is_the_error_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("tracegrade.evaluate.evaluator.Evaluator.evaluate", crash)
    (answer,) = _batch({"evaluator": "tool-call-order", "criteria": json.loads(_ORDER), "gate": True})
    assert answer["error"] == {"type": "ZeroDivisionError", "message": "crashed: by zero"}


def test_a_null_score_is_not_evaluable() -> None:
    (answer,) = _batch({"evaluator": "tool_call_accuracy_f1", "config": {"mode": "STRICT"}, "expected": None})
    assert (answer["outcome"], answer["score"], answer["error"]) == ("not_evaluable", None, None)
    assert "nothing to score" in answer["explanation"]


def test_a_bare_score_has_a_band() -> None:
    (answer,) = _batch({"evaluator": "score_interpretation", "actual": {"score": 0.7}})
    assert answer["details"] == {"band": "good"}


_MASKED = {
    "evaluator": "tool-call-args",
    "criteria": {"tool_calls": [{"name": "pay", "args": {"amount": 5}}]},
    "calls": [{"name": "pay", "arguments": None, "arguments_status": "redacted"}],
}


def test_the_gate_is_off_unless_asked_for() -> None:
    off, on = _batch(_MASKED, {**_MASKED, "gate": True})
    assert (off["outcome"], off["score"]) == ("fail", 0.0)
    assert (on["outcome"], on["score"]) == ("not_evaluable", None)
    assert "redacted (pay" in on["explanation"]
    assert _batch(_MASKED, options=("--gate",)) == [on]


def test_criteria_are_literal_unless_matchers_are_asked_for() -> None:
    case = {
        "evaluator": "tool-call-args",
        "criteria": {"tool_calls": [{"name": "pay", "args": {"id": {"$regex": "^P-"}}}]},
        "calls": [{"name": "pay", "args": {"id": "P-17"}}],
    }
    outcomes = [
        answer["outcome"] for answer in _batch(case, {**case, "matchers": True}, {**case, "config": {"matchers": True}})
    ]
    assert outcomes == ["fail", "pass", "pass"]
    assert _batch(case, options=("--matchers",))[0]["outcome"] == "pass"


def test_integers_are_exact_and_spans_printed_by_extract_are_taken() -> None:
    case = {
        "evaluator": "tool-call-args",
        "criteria": {"tool_calls": [{"name": "pay", "args": {"id": 2**70 + 1}}]},
        "calls": [
            {
                "name": "pay",
                "arguments": {"id": 2**70 + 1},
                "arguments_status": "ok",
                "output": None,
                "output_status": "absent",
                "error": {"type": "timeout", "message": ""},
                "call_id": "c1",
                "agent": "support",
                "span_id": "00f067aa0ba902b7",
                "batch": None,
            }
        ],
    }
    right, wrong = _batch(case, {**case, "calls": [{"name": "pay", "args": {"id": 2**70}}]})
    assert (right["score"], wrong["score"]) == (1.0, 0.0)


def test_steps_are_batches() -> None:
    case = {
        "evaluator": "tool-call-order",
        "criteria": json.loads(_ORDER),
        "calls": [{"name": "book", "step": 1}, {"name": "search", "step": 1}],
    }
    together, sequential = _batch(case, {**case, "config": {"concurrency": "sequential"}})
    assert (together["score"], sequential["score"]) == (1.0, 0.5)


@each(
    ("part", "message"),
    [
        ({"calls": [1]}, "calls[0]: expected an object, found '1'"),
        ({"calls": [{"name": 1}]}, "calls[0].name: expected the tool's name, found 1"),
        ({"calls": [{"name": "a", "step": "x"}]}, "calls[0]: expected a number as batch (or step), found 'x'"),
        ({"calls": [{"name": "a", "output_status": "lost"}]}, "calls[0].output_status: expected one of ok, "),
        ({"spans": [{"start": "x"}]}, "spans[0].start: expected a time in seconds, found 'x'"),
        ({"spans": [{"attributes": 1}]}, "spans[0].attributes: expected an object"),
        ({"threshold": 2}, "threshold: expected a number from 0 to 1, found 2"),
        ({"config": [1]}, "config: expected an object of settings"),
        ({"prompt": 1}, "prompt: expected a text, found 1"),
    ],
)
def test_malformed_cases_say_where(part: dict[str, Any], message: str) -> None:
    (answer,) = _batch({"evaluator": "tool-call-order", "criteria": json.loads(_ORDER), **part})
    assert answer["error"]["type"] == "invalid_case"
    assert answer["error"]["message"].startswith(message)


_LATE = '{"constraints": [{"before": "refund", "comes": "find_order", "within": "30s"}]}'


@pytest.mark.parametrize(("gap_s", "outcome"), [(10, "pass"), (1000, "fail")])
def test_calls_as_extract_prints_them_keep_their_times(gap_s: int, outcome: str) -> None:
    starts = [5 * 10**9, 6 * 10**9, (6 + gap_s) * 10**9]
    calls = [
        {"name": name, "start_ns": start, "end_ns": start}
        for name, start in zip(["greet", "find_order", "refund"], starts, strict=True)
    ]
    result = _run("constraints", "--criteria", _LATE, "--calls", json.dumps(calls), "--format", "json")
    assert json.loads(result.stdout)["outcome"] == outcome


def test_calls_that_are_given_without_times_are_near_no_other() -> None:
    calls = '[{"name": "greet"}, {"name": "find_order"}, {"name": "refund"}]'
    result = _run("constraints", "--criteria", _LATE, "--calls", calls, "--format", "json")
    assert json.loads(result.stdout)["outcome"] == "not_evaluable"


@each(
    ("calls", "retries"),
    [
        ([{"name": "find", "args": {"id": 1}}, {"name": "find", "args": {"id": 2}}], 0),
        ([{"name": "find", "args": {"id": 1}}, {"name": "find", "args": {"id": 1}}], 1),
        ([{"name": "find", "agent": "a", "args": {}}, {"name": "find", "agent": "b", "args": {}}], 0),
        ([{"name": "find", "attempt": 2}, {"name": "find", "attempt": 3}], 2),  # as extract prints them
    ],
)
def test_a_call_like_an_earlier_one_of_its_agent_is_a_retry(calls: list[dict[str, Any]], retries: int) -> None:
    arguments = ("--criteria", '{"max_retries": 0}', "--calls", json.dumps(calls), "--format", "json")
    found = json.loads(_run("budget", *arguments).stdout)
    assert found["details"] == {"retries": {"limit": 0, "used": retries}}


def test_a_time_that_is_none_is_refused() -> None:
    result = _run("budget", "--criteria", '{"max_calls": 1}', "--calls", '[{"name": "find", "start_ns": "now"}]')
    assert result.exit_code == 2
    assert "calls[0].start_ns: expected a whole number, 0 or more, found 'now'" in result.output
