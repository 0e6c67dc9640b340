"""``tracegrade promote``: recorded traces become tests that hold, shortened and without personal data."""

import base64
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import build
from build import each, store_with
from build.commands import run, run_json
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings, without_bounds
from tracegrade.history.promote.rule_test_files import check_place
from tracegrade.model.errors import NotPossible
from tracegrade.model.signal import Signal
from tracegrade.model.trace import Trace
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.otlp.from_spans import requests_of
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.rule_tests import run_tests
from tracegrade.pipeline.trace_result import result_of
from tracegrade.pipeline.whole_traces import records_of
from tracegrade.rule.load import builtin_rules, load_rules

START_MS = 1_767_225_600_000  # 2026-01-01
ANN = "ann.lee@acme.io"
RULE = """\
id: mailed-before-looked-up
match: {agent: support}
evaluate:
  - evaluator: tool-call-args
    subset: true
    tool_calls:
      - {name: send_mail, args: {to: {$from: look_up.output.email}}}
"""


def conversation(number: int, to: str = ANN, *, agent: str = "support", **root: Any) -> Trace:
    """A run that looks a customer up and writes to `to`; between the spans of the agent, one of a web server."""
    calls = (
        ("look_up", {"phone": "+49 30 1234567"}, {"email": ANN, "card": 4111111111111111}),
        ("send_mail", {"to": to, "text": f"Dear {ANN}"}, {"ok": True}),
    )
    spans: list[dict[str, Any]] = [
        {
            "id": 1,
            "name": f"invoke_agent {agent}",
            "at": [START_MS, START_MS + 100],
            "attributes": {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": agent,
                "gen_ai.input.messages": json.dumps(
                    [{"role": "user", "parts": [{"type": "text", "content": "Write to the customer."}]}]
                ),
                **root,
            },
        },
        {
            "id": 2,
            "parent": 1,
            "name": "POST /mail",
            "at": [START_MS + 1, START_MS + 90],
            "attributes": {"http.route": "/mail"},
        },
    ]
    for place, (name, arguments, output) in enumerate(calls):
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": f"call_Ab3dEf7hIj{place}K",
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": json.dumps(output),
            "tenant.tier": "gold",
        }
        at = [START_MS + 10 * place + 10, START_MS + 10 * place + 15]
        spans.append({"id": 3 + place, "parent": 2, "name": f"execute_tool {name}", "at": at, "attributes": attributes})
    return build.trace(spans, trace_id=number.to_bytes(16, "big"))


def trace_id(number: int) -> str:
    return f"{number:032x}"


def record(data_dir: Path, rules: Path, *traces: Trace, tenant: str = "default") -> None:
    """Store `traces` as a judge with these rules would."""
    requests = [
        SourceRequest(Signal.TRACES if place == 0 else Signal.LOGS, request.SerializeToString(), "")
        for trace in traces
        for place, request in enumerate(requests_of(trace))
    ]
    settings = TracesSettings()
    settings.keep(["tenant.tier", "http.route"])
    judge = RecordJudge(without_bounds(settings), load_rules([rules]), ClosedTraces())
    judged = [one for item in records_of(requests) for one in judge.read(replace(item, tenant=tenant))]
    judged += judge.end()
    store_with(data_dir, *(result_of(one, "live", "") for one in judged))


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    path = tmp_path / "rules" / "mail" / "mailed-before-looked-up" / "rule.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(RULE)
    return path


def promote(rule: Path, *arguments: str, chosen: Sequence[str] = ("--rule", "mailed-before-looked-up")) -> Any:
    data_dir = rule.parents[3]
    return run(data_dir, "promote", *arguments, *chosen, "--rules", str(rule))


def written(rule: Path, number: int) -> str:
    return (rule.parent / "traces" / f"{trace_id(number)}.json").read_text()


def holds(rule: Path) -> bool:
    (loaded,) = load_rules([rule]).rules
    results = list(run_tests(loaded, rule, TracesSettings()))
    assert results
    return not any(result.failure for result in results)


def test_a_failing_trace_becomes_a_test_that_holds_at_once(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"), conversation(2))
    result = promote(rule, trace_id(1))
    assert result.exit_code == 0, result.output
    tests = (rule.parent / "tests.yaml").read_text()
    assert tests.startswith(
        '- description: "fail on 2026-01-01: 0 of 1 expected call was made with the expected arguments'
    )
    assert f'  trace: "{trace_id(1)}.json"\n  expect: {{tool-call-args: fail}}\n' in tests
    assert holds(rule)


def test_the_newest_passing_trace_comes_along_where_the_rule_has_none(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"), conversation(2), conversation(3))
    result = promote(rule, trace_id(1))
    assert f"Trace {trace_id(3)} was added because the rule had no trace that passes it." in result.output
    assert [path.stem for path in sorted((rule.parent / "traces").iterdir())] == [trace_id(1), trace_id(3)]
    assert "also asks for" not in result.output


def test_it_says_what_rules_test_still_asks_for(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"))
    result = promote(rule, trace_id(1))
    assert result.exit_code == 0
    assert "'tracegrade rules test' also asks for a trace that passes the rule" in result.output


def test_what_was_recorded_of_people_is_not_in_the_files(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1))
    (item,) = run_json(tmp_path, "promote", trace_id(1), "--rule", "mailed-before-looked-up", "--rules", str(rule))
    text = written(rule, 1)
    for value in (ANN, "1234567", "4111111111111111", "call_Ab3dEf7hIj"):
        assert value not in text
    assert "user1@example.com" in text
    assert "Dear user1@example.com" in text
    assert item["redacted"] == {"call_id": 2, "card": 1, "email": 3, "phone": 1}
    assert item["expect"] == {"tool-call-args": "pass"}  # though the address was replaced in both calls


def test_what_a_sender_wrote_in_another_form_is_not_in_the_files(tmp_path: Path, rule: Path) -> None:
    hidden = base64.b64encode(f"to {ANN} at once".encode()).decode()
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": f"sent {hidden}, {ANN[:3]}\u200b{ANN[3:]}"}]}]
    record(tmp_path, rule, conversation(1, **{"gen_ai.output.messages": json.dumps(answer)}))
    (item,) = run_json(tmp_path, "promote", trace_id(1), "--rule", "mailed-before-looked-up", "--rules", str(rule))
    assert item["redacted"]["disguised"] == 2
    assert hidden not in written(rule, 1)
    assert "lee@acme.io" not in written(rule, 1)
    assert item["expect"] == {"tool-call-args": "pass"}


def test_no_redact_writes_values_as_they_are(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1))
    assert promote(rule, trace_id(1), "--no-redact").exit_code == 0
    assert ANN in written(rule, 1)


def test_spans_and_attributes_that_nothing_reads_are_left_out(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, **{"enduser.id": "u-17"}))
    (item,) = run_json(tmp_path, "promote", trace_id(1), "--rule", "mailed-before-looked-up", "--rules", str(rule))
    assert (item["spans"], item["spans_before"], item["kept"]) == (3, 4, None)
    text = written(rule, 1)
    assert not [word for word in ("tenant.tier", "POST /mail", "u-17") if word in text]
    spans = json.loads(text)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {span.get("parentSpanId", "") for span in spans} == {"", f"{1:016x}"}  # the web server's span is gone


def test_what_the_rule_reads_is_kept(tmp_path: Path, rule: Path) -> None:
    rule.write_text(RULE.replace("match: {agent: support}", "match: {attributes: {enduser.id: u-17}}"))
    record(tmp_path, rule, conversation(1, **{"enduser.id": "u-17"}))
    assert promote(rule, trace_id(1)).exit_code == 0
    assert "u-17" in written(rule, 1)


def test_a_second_time_nothing_changes(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"), conversation(2))
    promote(rule, trace_id(1))
    before = {path: path.read_bytes() for path in rule.parent.rglob("*") if path.is_file()}
    result = promote(rule, trace_id(1))
    assert result.exit_code == 0
    assert f"Trace {trace_id(1)} is a test already: {rule.parent / 'tests.yaml'}:1." in result.output
    assert "wrote" not in result.output
    assert {path: path.read_bytes() for path in rule.parent.rglob("*") if path.is_file()} == before


def test_comments_and_layout_of_the_tests_stay(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"), conversation(2))
    promote(rule, trace_id(2))
    tests = rule.parent / "tests.yaml"
    entry, _, _ = tests.read_text().partition("\n- ")  # of two: the failing one came along
    first = "# by hand\n" + "".join(f"  {line}\n" for line in entry.splitlines()) + "  # the end"
    tests.write_text(first)
    result = promote(rule, trace_id(1))
    assert result.exit_code == 0, result.output
    assert tests.read_text().startswith(first + '\n  - description: "fail on')
    assert holds(rule)


def test_tests_in_brackets_cannot_be_added_to(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"), conversation(2))
    promote(rule, trace_id(2))
    tests = rule.parent / "tests.yaml"
    flow = '[{description: x, trace: "' + trace_id(2) + '.json", expect: {tool-call-args: pass}}]\n'
    tests.write_text(flow)
    result = promote(rule, trace_id(1))
    assert result.exit_code == 2
    assert "write it as a list of entries that begin with '- '" in result.output
    assert tests.read_text() == flow


def test_a_dry_run_writes_nothing(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1))
    result = promote(rule, trace_id(1), "--dry-run")
    assert f"would write {rule.parent / 'tests.yaml'}" in result.output
    assert [path.name for path in rule.parent.iterdir()] == ["rule.yaml"]


def test_the_newest_failing_traces_are_found_one_for_each_reason(tmp_path: Path, rule: Path) -> None:
    others = [conversation(number, f"bob{number}@acme.io") for number in (1, 2, 3)]
    record(tmp_path, rule, *others, conversation(4))
    found = ("--failing", "mailed-before-looked-up")
    result = promote(rule, "--distinct", "reason", chosen=found)
    assert result.exit_code == 0, result.output
    names = {path.stem for path in (rule.parent / "traces").iterdir()}
    assert names == {trace_id(3), trace_id(4)}
    promote(rule, "--limit", "2", chosen=found)
    assert {path.stem for path in (rule.parent / "traces").iterdir()} == {trace_id(2), *names}


def test_traces_that_the_rule_no_longer_fails_are_left_out(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"))
    rule.write_text(RULE.replace("to: {$from: look_up.output.email}", "to: {$type: string}"))
    result = promote(rule, chosen=("--failing", "mailed-before-looked-up"))
    assert "rule mailed-before-looked-up as it is now does not fail it" in result.output
    assert [path.name for path in rule.parent.iterdir()] == ["rule.yaml"]


def test_a_value_that_the_rule_compares_is_named_and_kept_on_request(tmp_path: Path, rule: Path) -> None:
    rule.write_text(RULE.replace("{$from: look_up.output.email}", ANN))
    record(tmp_path, rule, conversation(1), conversation(2, "bob@acme.io"))
    result = promote(rule, trace_id(1))
    assert result.exit_code == 2
    assert (
        "Error: rule mailed-before-looked-up reads 1 value that would be redacted (1 email), and says something else "
        "of a stand-in; found at gen_ai.tool.call.arguments.text. If that may be written as it is, give --keep "
        "'gen_ai.tool.call.arguments.text'" in result.output
    )
    assert ANN not in result.output
    assert [path.name for path in rule.parent.iterdir()] == ["rule.yaml"]
    assert promote(rule, trace_id(1), "--keep", "gen_ai.tool.call.arguments.t*").exit_code == 0
    assert ANN in written(rule, 1)
    assert "1234567" not in written(rule, 1)


def test_a_number_that_the_rule_compares_is_no_card(tmp_path: Path, rule: Path) -> None:
    rule.write_text(
        "id: mailed-before-looked-up\nevaluate:\n  - evaluator: tool-call-output\n"
        "    tool_outputs: [{name: look_up, output: {email: {$any: true}, card: 4111111111111111}}]\n"
    )
    record(tmp_path, rule, conversation(1))
    result = promote(rule, trace_id(1))
    assert result.exit_code == 0, result.output
    assert "tool-call-output: pass" in result.output
    assert "keeps 1 value that looks personal or secret, at gen_ai.tool.call.result.card" in result.output
    assert "4111111111111111" in written(rule, 1)
    assert ANN not in written(rule, 1)


def test_an_expectation_that_the_rule_does_not_meet_is_a_known_gap(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"), conversation(2), conversation(3, "bob@acme.io"))
    promote(rule, trace_id(2))
    result = promote(rule, trace_id(1), "--expect", "pass")
    assert result.exit_code == 2
    assert "gives tool-call-args: fail, expected tool-call-args: pass" in result.output
    assert "give --known-gap WHY" in result.output
    result = promote(rule, trace_id(1), "--expect", "pass", "--known-gap", "Bob is Ann's assistant")
    assert result.exit_code == 0, result.output
    assert holds(rule)


def test_a_trace_that_must_not_match_can_be_a_test(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, agent="billing"), conversation(2), conversation(3, "bob@acme.io"))
    promote(rule, trace_id(2))
    result = promote(rule, trace_id(1))
    assert result.exit_code == 2
    assert 'match.agent does not hold: expected "support"' in result.output
    assert promote(rule, trace_id(1), "--expect", "not_matched").exit_code == 0
    assert holds(rule)


def test_only_traces_of_the_tenant_that_is_named_become_tests(tmp_path: Path, rule: Path) -> None:
    for tenant, right in (("mine", 1), ("yours", 2)):
        traces = [conversation(number, ANN if number == right else "else@acme.io") for number in (1, 2)]
        record(tmp_path, rule, *traces, tenant=tenant)
    asked = ("--failing", "mailed-before-looked-up")
    shown = promote(rule, "--tenant", "mine", "--dry-run", "--format", "json", chosen=asked)
    found = json.loads(shown.stdout.splitlines()[0])
    assert (found["trace_id"], found["expect"]) == (trace_id(2), {"tool-call-args": "fail"})
    result = promote(rule, trace_id(1), "--tenant", "yours")
    assert result.exit_code == 0, result.output
    assert "tool-call-args: fail" in result.output
    # The passing one beside it is theirs, too: of mine, this trace passes.
    assert f"{trace_id(2)}  tool-call-args: pass" in result.output
    missing = promote(rule, trace_id(1), "--tenant", "hers")
    assert (missing.exit_code, missing.output.count("is not in the store for tenant 'hers'")) == (2, 1)


def test_a_session_becomes_a_test_of_all_its_traces(tmp_path: Path, rule: Path) -> None:
    rule.write_text(RULE.replace("match: {agent: support}", "scope: session"))
    turns = [conversation(number, **{"gen_ai.conversation.id": "c-1"}) for number in (1, 2)]
    record(tmp_path, rule, *turns)
    result = promote(rule, trace_id(1))
    assert result.exit_code == 0, result.output
    assert len(list((rule.parent / "traces").iterdir())) == 2
    assert "is a test already" in promote(rule, trace_id(2)).output


def test_the_newest_failing_sessions_are_found(tmp_path: Path, rule: Path) -> None:
    rule.write_text(RULE.replace("match: {agent: support}", "scope: session"))
    turns = [conversation(number, "else@acme.io", **{"gen_ai.conversation.id": "c-1"}) for number in (1, 2)]
    record(tmp_path, rule, *turns)
    result = promote(rule, chosen=("--failing", "mailed-before-looked-up"))
    assert result.exit_code == 0, result.output
    assert len(list((rule.parent / "traces").iterdir())) == 2
    assert "tool-call-args: fail" in result.output


BAD = [
    ((), (), "give TRACE_IDs, or --failing ID"),
    ((trace_id(1),), (), "give --rule ID"),
    ((trace_id(1),), ("--failing", "x"), "give either TRACE_IDs and --rule ID, or --failing ID"),
    ((trace_id(1),), ("--rule", "mailed-befor-looked-up"), "did you mean 'mailed-before-looked-up'?"),
    (
        (trace_id(9),),
        ("--rule", "mailed-before-looked-up"),
        f"trace {trace_id(9)} is not in the store: it may be",
    ),
    ((trace_id(1), "--expect", "passes"), ("--rule", "mailed-before-looked-up"), "expected OUTCOME or NAME=OUTCOME"),
    ((trace_id(1), "--expect", "x=pass"), ("--rule", "mailed-before-looked-up"), "has no evaluation 'x'"),
    ((trace_id(1), "--known-gap", "x"), ("--rule", "mailed-before-looked-up"), "give --expect, too"),
    (
        (trace_id(1), "--keep", "a.b"),
        ("--rule", "mailed-before-looked-up"),
        "--keep 'a.b': nothing to redact was",
    ),
    ((trace_id(1), "--run", "none"), ("--rule", "mailed-before-looked-up"), "none"),
]


@pytest.fixture
def recorded(tmp_path: Path, rule: Path) -> Path:
    """The rule, with a conversation that it judged."""
    record(tmp_path, rule, conversation(1))
    return rule


@each(("arguments", "chosen", "said"), BAD)
def test_a_mistake_is_one_sentence(recorded: Path, arguments: Sequence[str], chosen: Sequence[str], said: str) -> None:
    result = promote(recorded, *arguments, chosen=chosen)
    assert result.exit_code == 2
    assert said in result.output
    assert [path.name for path in recorded.parent.iterdir()] == ["rule.yaml"]


def test_ready_made_rules_are_not_written_to(tmp_path: Path) -> None:
    result = run(tmp_path, "promote", trace_id(1), "--rule", "same-call-repeated", "--rules", "builtin:default")
    assert result.exit_code == 2
    assert "is ready-made, and an update would undo what is written there: copy it, 'mkdir -p rules" in result.output


@pytest.fixture
def read_only(rule: Path) -> Iterator[Path]:
    rule.parent.chmod(0o500)
    yield rule
    rule.parent.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, read_only: Path) -> None:
    record(tmp_path, read_only, conversation(1))
    assert f"{read_only.parent}: no permission to write" in promote(read_only, trace_id(1)).output


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1))
    (rule.parent / "traces").write_text("in the way")
    result = promote(rule, trace_id(1))
    assert result.exit_code == 2
    assert "cannot be written" in result.output
    shutil.rmtree(tmp_path / "rules")


def test_a_ready_made_rule_is_written_beside_only_where_its_own_path_was_named() -> None:
    root = builtin_rules()
    rule = next(root.rglob("rule.yaml"))
    check_place(rule, [str(root)])
    with pytest.raises(NotPossible, match="is ready-made, and an update would undo what is written there"):
        check_place(rule, ["builtin:all"])
