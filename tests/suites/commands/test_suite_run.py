"""``suite run`` from the command line to what is stored, against a server on this machine."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from build import each, store_with
from suites.build.scripted_models import Answer, Script, Server, calling, prompt_of, saying, serving, write_models
from tracegrade.cli import main
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import reading_store
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.runs import Run, stored_runs
from tracegrade.store.tallies import tallies
from waiting import WITHIN_S, eventually

VECTORS = json.loads((Path(__file__).parents[2] / "conformance/vectors/multi_turn.json").read_text())["cases"]
KEY = "sk-very-secret"
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CITIES = ["Paris", "Tokyo", "Rome"]


def case(city: str) -> dict[str, Any]:
    return {"prompt": f"Weather in {city}?", "expected_tool": "get_weather", "expected_params": {"city": city}}


SUITE = {"name": "Weather", "system_prompt": "Use tools.", "tools": [WEATHER], "test_cases": [*map(case, CITIES)]}
FLIGHT = {
    "prompt": "Book a flight from NYC to London",
    "expected_tool": "book_flight",
    "expected_params": {"origin": "NYC"},
    "multi_turn": True,
    "max_rounds": 3,
    "optimal_hops": 2,
    "valid_prerequisites": ["search_flights"],
    "mock_responses": {"search_flights": {"flights": ["FL123"]}},
}


def right(body: dict[str, Any]) -> Answer:
    return calling(("get_weather", {"city": prompt_of(body).removeprefix("Weather in ").removesuffix("?")}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KEY", KEY)
    (tmp_path / "weather.json").write_text(json.dumps(SUITE))
    return tmp_path


class Place:
    """A folder with a suite and a file of models, and commands run over it."""

    def __init__(self, folder: Path, server: Server, **more: Any) -> None:
        self.folder = folder
        self.server = server
        self.models = write_models(folder, server.url, **{"api_key": "${env:KEY}", "attempts": 1, **more})
        self.data = folder / "data"
        store_with(self.data)

    def arguments(self, *arguments: str, suite: str = "weather.json") -> list[str]:
        options = ["--models", str(self.models), "--data-dir", str(self.data)]
        return ["suite", "run", str(self.folder / suite), *arguments, *options]

    def run(self, *arguments: str, suite: str = "weather.json") -> Result:
        return CliRunner().invoke(main, self.arguments(*arguments, suite=suite))

    def results(self, *arguments: str, suite: str = "weather.json") -> tuple[list[Any], list[Any]]:
        done = self.run(*arguments, "--format", "json", suite=suite)
        assert done.exit_code == 0, done.output
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return [row for row in rows if row["kind"] == "result"], [row for row in rows if row["kind"] == "summary"]

    def runs(self) -> list[Run]:
        with reading_store(f"sqlite:///{self.data / 'tracegrade.db'}") as connection:
            return stored_runs(connection, "default")


@pytest.fixture
def serve(folder: Path) -> Iterator[Any]:
    open_servers: list[Any] = []

    def serve(script: Script, **more: Any) -> Place:
        context = serving(script)
        open_servers.append(context)
        return Place(folder, context.__enter__(), **more)

    yield serve
    for context in open_servers:
        context.__exit__(None, None, None)


def test_a_suite_may_be_in_a_file_called_suite_json(serve: Any, folder: Path) -> None:
    """Beside a rule, a file of this name is part of what `rules import` writes."""
    (folder / "weather.json").rename(folder / "suite.json")
    place = serve(right)
    results, _ = place.results("--model", "m-1", suite="suite.json")
    written = CliRunner().invoke(main, ["rules", "import", str(folder / "suite.json"), "--in", str(folder / "rules")])
    assert written.exit_code == 0, written.output
    (imported,) = (folder / "rules").rglob("suite.json")
    again, _ = place.results("--model", "m-1", suite=str(imported))
    assert [row["outcome"] for row in [*results, *again]] == ["pass"] * 2 * len(SUITE["test_cases"])


def test_each_model_gets_a_run_with_a_score(serve: Any) -> None:
    def script(body: dict[str, Any]) -> Answer:
        wrong = body["model"] == "m-2" and "Rome" in prompt_of(body)
        return calling(("get_weather", {"city": "Milan"})) if wrong else right(body)

    place = serve(script, models="{m-1: {price: {input: 10, output: 100}}, m-2: {}}")
    done = place.run("--model", "m-1", "--model", "m-2", "--experiment", "tuning", "--label", "note=x")
    assert done.exit_code == 0, done.output
    assert "Stored as run tuning/1 of experiment tuning: 3 traces, score 1.0000." in done.stderr
    assert "Stored as run tuning/2 of experiment tuning: 3 traces, score 0.8667, -0.1333 against" in done.stderr
    assert "fail one::m-2 case-3 overall 0.6" in done.stderr
    assert KEY not in done.output
    first, second = place.runs()
    assert (first.labels, second.labels) == ({"model": "one::m-1", "note": "x"}, {"model": "one::m-2", "note": "x"})
    assert (first.selection["temperature"], first.selection["tool_choice"]) == (0.0, "required")
    bodies = place.server.requests
    assert [message["role"] for message in bodies[0]["messages"]] == ["system", "user"]
    assert bodies[0]["tools"] == [WEATHER]
    with reading_store(f"sqlite:///{place.data / 'tracegrade.db'}") as connection:
        assert tallies(connection, ResultFilter()) == {}
        assert trace_heads(connection, ResultFilter(), 9) == []
    assert all(KEY.encode() not in path.read_bytes() for path in place.data.iterdir() if path.is_file())


def test_a_result_says_scores_tokens_and_cost(serve: Any) -> None:
    place = serve(right, models="{m-1: {price: {input: 10, output: 100}}, m-2: {}}")
    settings = place.folder / "config.yaml"
    settings.write_text("traces: {prices: {'m-*': {input: 20, output: 0}}}")
    _, (other,) = place.results("--model", "one::m-2", "-c", str(settings))  # its own price comes first
    assert other["cost"] == pytest.approx(0.006)
    results, (summary,) = place.results("--model", "one::m-1", "--repeat", "2", "-c", str(settings))
    assert [(item["case"], item["repetition"]) for item in results] == [
        (f"case-{number}", repetition) for number in (1, 2, 3) for repetition in (1, 2)
    ]
    first = results[0]
    assert first["calls"] == [{"name": "get_weather", "arguments": {"city": "Paris"}}]
    assert (first["outcome"], first["overall"], first["tool_selection"], first["param_accuracy"]) == ("pass", 1, 1, 1)
    assert (first["input_tokens"], first["output_tokens"], first["cost"]) == (100, 10, 0.002)
    assert (first["multi_turn"], first["notes"]) == (None, [])
    assert summary["cost"] == pytest.approx(0.012)
    assert (summary["overall"], summary["interval"], summary["flaky"]) == (1.0, None, [])


def test_a_case_that_passes_and_fails_is_flaky(serve: Any) -> None:
    asked: list[str] = []

    def script(body: dict[str, Any]) -> Answer:
        asked.append(prompt_of(body))
        return saying("Sunny.") if asked.count("Weather in Rome?") == 1 and "Rome" in asked[-1] else right(body)

    place = serve(script, at_a_time=1)
    _, (summary,) = place.results("--model", "m-1", "--repeat", "2")
    assert (summary["flaky"], summary["pass"], summary["fail"]) == (["case-3"], 5, 1)


def test_several_turns_go_on_until_the_expected_tool(serve: Any, folder: Path) -> None:
    (folder / "flight.json").write_text(json.dumps({"name": "Flight", "tools": [WEATHER], "test_cases": [FLIGHT]}))
    scripted = [
        calling(("search_flights", {"to": "London"}), ("get_visa", {})),
        calling(("book_flight", {"origin": "NYC"})),
        saying("never asked"),
    ]
    place = serve(lambda body: scripted.pop(0))
    (result,), _ = place.results("--model", "m-1", suite="flight.json")
    assert result["multi_turn"] == {
        "completion": 1.0,
        "efficiency": 0.6667,
        "redundancy_penalty": 0.0,
        "detour_penalty": 0.1,
        "calls": 3,
    }
    assert (result["overall"], result["notes"]) == (0.5667, ["no mock response for the tool 'get_visa'"])
    _, second = place.server.requests
    answers = [json.loads(message["content"]) for message in second["messages"] if message["role"] == "tool"]
    assert answers == [{"flights": ["FL123"]}, {"error": "no mock response for the tool 'get_visa'"}]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool", "tool"]


def test_max_rounds_ends_a_chain(serve: Any, folder: Path) -> None:
    (folder / "flight.json").write_text(json.dumps({"name": "Flight", "tools": [WEATHER], "test_cases": [FLIGHT]}))
    place = serve(lambda body: calling(("search_flights", {})))
    (result,), _ = place.results("--model", "m-1", suite="flight.json")
    assert (len(place.server.requests), result["multi_turn"]["calls"]) == (3, 3)
    answered = [message for message in place.server.requests[-1]["messages"] if message["role"] == "tool"]
    assert len({message["tool_call_id"] for message in answered}) == 2  # though the server begins at 0 every time


def test_a_tool_that_the_suite_does_not_have_is_told_once(serve: Any, folder: Path) -> None:
    cases = [{**case("Paris"), "expected_tool": "get_wether"}, case("Rome")]
    (folder / "other.json").write_text(json.dumps({**SUITE, "test_cases": cases}))
    place = serve(right, models="{m-1: {}, m-2: {}}")
    done = place.run("--model", "m-1", "--model", "m-2", suite="other.json")
    hint = "Note: No tool of the suite has the name that is expected in 1 case (case-1): no model can call it.\n"
    assert (done.exit_code, done.stderr.count(hint), done.stdout.count(hint)) == (0, 1, 0), done.stderr


def test_a_repair_and_a_fallback_are_noted(serve: Any) -> None:
    def script(body: dict[str, Any]) -> Answer:
        if body["tool_choice"] == "required":
            return Answer({"error": "no"}, 400)
        return saying(json.dumps({"name": "get_weather", "arguments": right(body).body["choices"][0] and {}}))

    place = serve(script, at_a_time=1)
    results, (summary,) = place.results("--model", "m-1")
    assert results[0]["notes"] == [
        "tool_choice required was refused, so auto was asked for",
        "get_weather: the call came as JSON in the text",
    ]
    assert summary["notes"][results[0]["notes"][0]] == 3
    assert (results[0]["tool_selection"], results[0]["param_accuracy"]) == (1, 0)


def test_unreadable_arguments_fail_and_are_shown(serve: Any) -> None:
    answer = calling(("get_weather", {}))
    answer.body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "city=Paris"
    (result, *_), _ = serve(lambda body: answer).results("--model", "m-1")
    assert (result["outcome"], result["overall"]) == ("fail", 0.6)
    assert result["notes"] == ["get_weather: arguments came as something that is no JSON object: city=Paris"]


def test_no_answer_to_one_case_is_an_error_of_that_case(serve: Any) -> None:
    place = serve(lambda body: Answer({}, 500) if "Tokyo" in prompt_of(body) else right(body))
    done = place.run("--model", "m-1", "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["outcome"] for row in rows[:3]] == ["pass", "error", "pass"]
    assert (rows[1]["overall"], rows[3]["error"], rows[3]["overall"]) == (None, 1, 1.0)
    assert "no_answer: " in rows[1]["explanation"]
    assert done.exit_code == 0


def test_a_wrong_key_ends_the_run_of_its_model_alone(serve: Any) -> None:
    place = serve(
        lambda body: Answer({"error": {"message": f"wrong key {KEY}"}}, 401) if body["model"] == "m-1" else right(body),
        models="{m-1: {}, m-2: {}}",
    )
    done = place.run("--model", "m-1", "--model", "m-2")
    assert done.exit_code == 3
    assert "Error: one::m-1: " in done.stderr
    assert "answers 401: wrong key **********" in done.stderr
    assert [run.labels["model"] for run in place.runs()] == ["one::m-2"]  # nothing was stored of the other


def test_a_server_that_is_not_there_ends_the_run_of_its_model(serve: Any) -> None:
    place = serve(right)
    place.server.shutdown()
    place.server.socket.close()
    done = place.run("--model", "m-1")
    assert done.exit_code == 3
    assert "Nothing ran." in done.stdout
    assert "Error: one::m-1: http://127.0.0.1" in done.stderr
    assert "cannot be reached: NewConnectionError; no further case is asked" in done.stderr
    assert place.runs() == []


def test_what_was_stored_before_an_error_is_not_asked_again(serve: Any) -> None:
    broken = True
    place = serve(lambda body: Answer({}, 403) if broken and "Rome" in prompt_of(body) else right(body), at_a_time=1)
    first = place.run("--model", "m-1", "--experiment", "tuning")
    assert (first.exit_code, [run.state for run in place.runs()]) == (3, ["failed"])
    broken = False
    second = place.run("--model", "m-1", "--experiment", "tuning")
    assert second.exit_code == 0, second.output
    assert "Going on with run tuning/1 of one::m-1, which is not complete." in second.stderr
    assert "2 results stored before, and not asked again." in second.stderr
    assert [prompt_of(body) for body in place.server.requests].count("Weather in Paris?") == 1
    assert [(run.state, run.name) for run in place.runs()] == [("complete", "tuning/1")]
    third = place.run("--model", "m-1", "--experiment", "tuning", "--temperature", "1")
    assert "Stored as run tuning/2" in third.stderr


@pytest.mark.long
def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(serve: Any) -> None:
    held = threading.Event()

    def script(body: dict[str, Any]) -> Answer:
        if "Rome" in prompt_of(body):
            held.wait(WITHIN_S)
        return right(body)

    place = serve(script)
    command = [sys.executable, "-m", "tracegrade", *place.arguments("--model", "m-1", "--experiment", "tuning")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stderr is not None
        assert {process.stderr.readline()[:20] for _ in range(2)} == {"pass one::m-1 case-1", "pass one::m-1 case-2"}
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, said) == (
        130,
        "Interrupted: what was done is kept, and the same command goes on with it.\n",
    )
    assert [(run.state, run.name) for run in place.runs()] == [("incomplete", "tuning/1")]
    held.set()
    done = place.run("--model", "m-1", "--experiment", "tuning")
    assert "Going on with run tuning/1" in done.stderr
    assert "3 traces, score 1.0000" in done.stderr


def test_a_run_that_was_ended_before_its_first_result_is_forgotten(serve: Any) -> None:
    here, interrupted, over = threading.main_thread().ident, threading.Lock(), threading.Event()
    assert here is not None

    def script(body: dict[str, Any]) -> Answer:
        if interrupted.acquire(blocking=False):
            signal.pthread_kill(here, signal.SIGINT)
        over.wait(WITHIN_S)
        return right(body)

    place = serve(script)
    done = place.run("--model", "m-1")
    over.set()
    assert (done.exit_code, place.runs()) == (130, []), done.output


@pytest.mark.long
def test_a_killed_run_loses_no_case_and_stores_none_twice(serve: Any, folder: Path) -> None:
    cases = [case(f"City {number}") for number in range(24)]
    (folder / "weather.json").write_text(json.dumps({**SUITE, "test_cases": cases}))
    place = serve(right, at_a_time=4)
    arguments = place.arguments("--model", "m-1", "--experiment", "tuning")
    command = [sys.executable, "-m", "tracegrade", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ) as process:
        eventually(lambda: len(place.server.requests) > 8, "requests")
        process.kill()
    done = place.run("--model", "m-1", "--experiment", "tuning")
    assert "24 traces, score 1.0000" in done.stderr, done.stderr
    (run,) = place.runs()
    assert run.state == "complete"
    # Asked again is what was under way at the kill, or waited to be stored: two units for each of four threads.
    assert len(place.server.requests) - 24 <= 2 * 4


@pytest.mark.parametrize(
    "vector",
    [vector for vector in VECTORS if vector["level"] == "required"],
    ids=lambda vector: vector["id"],
)
def test_the_vectors_of_several_turns_come_out_of_real_runs(serve: Any, folder: Path, vector: dict[str, Any]) -> None:
    expected, chain = vector["expected"], vector["actual"]
    names = {call["name"] for call in chain}
    final = expected["expected_tool"]
    ends = {final} if isinstance(final, str) else {*(final or ())}
    if any(call["name"].lower() in {name.lower() for name in ends} for call in chain[:-1]):
        calls = [calling(*((call["name"], call["args"]) for call in chain))]  # a run would end there: all in one answer
    else:
        calls = [calling((call["name"], call["args"])) for call in chain]
    config = {key: value for key, value in vector["config"].items() if value is not None}
    written = {"prompt": "Go", "multi_turn": True, "max_rounds": 50, **expected, **config}
    written["mock_responses"] = dict.fromkeys(names, "ok") or {"none": "ok"}
    (folder / "chain.json").write_text(json.dumps({"name": "Chain", "tools": [WEATHER], "test_cases": [written]}))
    place = serve(lambda body: calls.pop(0) if calls else saying("done"))
    (result,), _ = place.results("--model", "m-1", suite="chain.json")
    assert result["overall"] == pytest.approx(vector["expected_score"], abs=1e-4)
    details = {name: value for name, value in result["multi_turn"].items() if name != "calls"}
    known = vector.get("expected_details", details)
    assert details == pytest.approx(known, abs=1e-4)


@each(
    ("arguments", "said"),
    [
        ([], "--model: expected at least one of one::m-1"),
        (["--model", "m-9"], "no model 'm-9' in the file of models"),
        (["--model", "m-1", "--system-prompt", "one::m-2=Hi"], "'one::m-2' is not asked; expected one of one::m-1"),
        (["--model", "m-1", "--system-prompt", "a", "--system-prompt", "b"], "two are given for all models"),
        (["--model", "m-1", "--system-prompt", "@/none"], "'/none' cannot be read"),
        (["--model", "m-1", "--label", "x"], "expected KEY=VALUE"),
        (["--model", "m-1", "--run", "live"], "is reserved; choose another name"),
    ],
)
def test_wrong_usage_is_one_sentence(serve: Any, arguments: list[str], said: str) -> None:
    place = serve(right)
    done = place.run(*arguments)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert place.server.requests == []


@each(
    ("suite", "said"),
    [
        ({"name": "X", "tools": [WEATHER], "test_cases": []}, "expected at least one case with a prompt"),
        ([{"id": "a", "question": "q", "function": []}], "lists of BFCL can be imported and judged, and not run"),
        ({"name": "X", "tools": [{"type": "function"}], "test_cases": [case("Paris")]}, "tools[0]: expected"),
        (
            {"name": "X", "test_cases": [{**FLIGHT, "max_rounds": 1000}]},
            "max_rounds: expected a whole number from 1 to",
        ),
        (
            {"name": "X", "test_cases": [{**case("("), "scoring_config": {"mode": "regex"}}]},
            "other.json: test_cases[0]: expected_params.city: RE2 refuses the regular expression '('",
        ),
    ],
)
def test_what_is_no_suite_is_refused(serve: Any, folder: Path, suite: Any, said: str) -> None:
    (folder / "other.json").write_text(json.dumps(suite))
    done = serve(right).run("--model", "m-1", suite="other.json")
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_an_imported_rule_is_a_suite_and_why_finds_its_cases(serve: Any, folder: Path) -> None:
    imported = CliRunner().invoke(main, ["rules", "import", str(folder / "weather.json"), "--in", str(folder)])
    assert imported.exit_code == 0, imported.output
    place = serve(right)
    (result, *_), _ = place.results("--model", "m-1", "--run", "first", suite="imported/weather")
    command = ["why", result["trace_id"], "--run", "first", "--rules", str(folder / "imported"), "--data-dir"]
    why = CliRunner().invoke(main, [*command, str(place.data)])
    assert (why.exit_code, "case-1" in why.output) == (0, True), why.output


def test_system_prompts_are_for_all_models_or_for_one(serve: Any, folder: Path) -> None:
    (folder / "prompt.txt").write_text("From a file.")
    place = serve(right, models="{m-1: {}, m-2: {}}")
    prompts = ("--system-prompt", "For all.", "--system-prompt", f"one::m-2=@{folder / 'prompt.txt'}")
    place.results("--model", "m-1", "--model", "m-2", *prompts)
    told = {(body["model"], body["messages"][0]["content"]) for body in place.server.requests}
    assert told == {("m-1", "For all."), ("m-2", "From a file.")}


def test_reports_for_ci_hold_every_result(serve: Any) -> None:
    place = serve(lambda body: saying("no") if "Rome" in prompt_of(body) else right(body))
    junit = ElementTree.fromstring(place.run("--model", "m-1", "--format", "junit").stdout)
    assert (junit.get("tests"), junit.get("failures")) == ("3", "1")
    assert [case.get("name") for case in junit.iter("testcase")] == ["case-1", "case-2", "case-3"]
    markdown = place.run("--model", "m-1", "--format", "markdown").stdout
    assert "| one::m-1 | weather/2 | 2 | 1 |  | 0.6667 |" in markdown
    assert "| fail | case-3 | one::m-1 | get\\_weather" in markdown or "| fail | case-3 | one::m-1 |" in markdown


def test_the_environment_of_opentelemetry_changes_nothing(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "tracegrade.case.id=case-2")
    place = serve(right)
    results, _ = place.results("--model", "m-1")
    assert [item["outcome"] for item in results] == ["pass"] * 3
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    done = place.run("--model", "m-1")
    assert (done.exit_code, "OTEL_SDK_DISABLED is true" in done.stderr) == (2, True)
