"""``suite import``, ``list``, ``show``, ``export``, ``delete`` over the store; ``suite run`` with what is there."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from build import store_with
from suites.build.scripted_mcp import TOOL, Script, scripted
from suites.build.scripted_models import Answer, calling, prompt_of, serving, write_models
from tracegrade.cli import main
from tracegrade.store.open import reading_store
from tracegrade.store.runs import stored_runs

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "units": {}}, "required": ["city"]}}}  # fmt: skip
SUITE = {
    "name": "Weather: EU/UK",
    "description": "of cities",
    "system_prompt": "Use tools.",
    "tools": [WEATHER],
    "test_cases": [
        {"prompt": "Weather in Paris?", "expected_tool": "get_weather", "expected_params": {"city": "Paris"}},
        {"id": "joke", "prompt": "Tell me a joke", "expected_tool": None},
        {"prompt": "Weather at home?", "expected_tool": ["get_weather", "find"], "multi_turn": True},
    ],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACEGRADE_DATA_DIR", "data")
    (tmp_path / "weather.json").write_text(json.dumps(SUITE))
    store_with(tmp_path / "data")
    return tmp_path


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["suite", *arguments], input=stdin)


def rows(*arguments: str) -> list[Any]:
    shown = run(*arguments, "--format", "json")
    assert shown.exit_code == 0, shown.output
    return [json.loads(line) for line in shown.stdout.splitlines()]


def imported(*arguments: str) -> str:
    made = run("import", *arguments)
    assert made.exit_code == 0, made.output
    (head, *_) = rows("list")
    return str(head["id"])


def test_a_file_is_stored_listed_shown_and_exported(place: Path) -> None:
    made = run("import", "weather.json")
    (head,) = rows("list")
    assert made.stdout == (
        f"stored Weather: EU/UK as {head['id']}: 1 tool, 3 cases\n"
        f"Next, run it with a model: tracegrade suite run {head['id']} --model PROVIDER::MODEL\n"
    )
    assert (head["name"], head["tool_count"], head["test_case_count"]) == ("Weather: EU/UK", 1, 3)
    listed = run("list").stdout
    assert f"{head['id']}  Weather: EU/UK  1      3" in listed
    shown = run("show", "Weather: EU/UK").stdout
    assert "system prompt: Use tools." in shown
    assert "get_weather  city*, units" in shown
    for cells in ("case-1", "get_weather or find", "no call", '{"city":"Paris"}'):
        assert cells in shown
    exported = run("export", head["id"])
    assert exported.exit_code == 0
    document = json.loads(exported.stdout)
    assert rows("show", head["id"]) == [{"id": head["id"], **document, "notes": []}]
    assert document["test_cases"][0] == {"id": "case-1", **SUITE["test_cases"][0]}  # type: ignore[index]


def test_a_file_replaces_a_stored_suite_which_keeps_its_id(place: Path) -> None:
    id_ = imported("weather.json")
    (place / "weather.json").write_text(json.dumps({**SUITE, "test_cases": SUITE["test_cases"][:1]}))  # type: ignore[index]
    done = run("import", "--replace", "Weather: EU/UK", "weather.json")
    assert done.stdout.startswith(f"replaced Weather: EU/UK as {id_}: 1 tool, 1 case\n")
    assert [(head["id"], head["test_case_count"]) for head in rows("list")] == [(id_, 1)]
    for arguments, said in (
        (("--replace", "none", "weather.json"), "no suite 'none' is stored"),
        (("weather.json", "--replace"), "--replace: expected the stored suite that FILE replaces"),
        (("--mcp", "http://127.0.0.1:9/", "--replace", id_), "--replace SUITE is for FILE"),
    ):
        refused = run("import", *arguments)
        assert (refused.exit_code, said in refused.output) == (2, True), refused.output
    assert [head["test_case_count"] for head in rows("list")] == [1]


def test_import_export_import_is_stable(place: Path) -> None:
    first = imported("weather.json")
    assert run("export", first, "-o", "out.json").stdout == "wrote out.json: 1 tool, 3 cases\n"
    again = imported("out.json", "--name", "Another")
    assert {**rows("show", again)[0], "id": first, "name": SUITE["name"]} == rows("show", first)[0]


def test_standard_input_is_read(place: Path) -> None:
    made = run("import", "-", stdin=json.dumps({"name": "empty"}))
    assert made.stdout.startswith("stored empty as ")
    assert made.stdout.endswith(": 0 tools, 0 cases\n")
    shown = run("show", "empty").stdout
    assert "No tools.\n\nNo cases yet.\n" in shown


def test_two_suites_of_one_name_are_told_apart_by_their_ids(place: Path) -> None:
    first = imported("weather.json")
    made = run("import", "weather.json")
    assert made.stderr == "Note: 2 suites are called 'Weather: EU/UK' now: name them by their ids.\n"
    refused = run("show", "Weather: EU/UK")
    assert refused.exit_code == 2
    assert "2 suites are called 'Weather: EU/UK'; name one by its id: " in refused.stderr
    assert run("show", first).exit_code == 0


def test_suites_are_their_tenants(place: Path) -> None:
    assert run("import", "weather.json", "--tenant", "other").exit_code == 0
    assert rows("list") == []
    assert run("list").stdout == "No suites; 'tracegrade suite import FILE' stores one.\n"
    (head,) = rows("list", "--tenant", "other")
    assert run("show", head["id"]).exit_code == 2
    assert run("export", head["id"], "--tenant", "other").exit_code == 0


def test_a_suite_is_deleted_with_its_cases_when_that_is_confirmed(place: Path) -> None:
    id_ = imported("weather.json")
    what = f"suite Weather: EU/UK ({id_}) with 3 cases"
    asked = run("delete", id_)
    assert asked.exit_code == 2
    assert f"Error: {what} would be deleted for good; --yes does so without asking\n" in asked.stderr
    of_another = run("delete", id_, "--tenant", "other", "--yes")
    assert of_another.exit_code == 2
    assert of_another.stderr == run("delete", "none", "--yes").stderr.replace("none", id_)
    assert len(rows("list")) == 1
    done = run("delete", "Weather: EU/UK", "--yes")
    assert (done.exit_code, done.stdout) == (0, f"Deleted {what}.\n")
    assert rows("list") == []
    assert run("delete", id_, "--yes").exit_code == 2
    [log] = (place / "data" / "access").glob("access-*.jsonl")
    entry = json.loads(log.read_text())
    assert (entry["operation"], entry["named"]) == ("tracegrade suite delete", {"suite_id": id_})


def test_what_is_stored_is_its_users_alone(place: Path) -> None:
    imported("weather.json")
    assert stat.S_IMODE((place / "data" / "tracegrade.db").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "written", "said"),
    [
        (["import", "none.json"], "", "Error: none.json: cannot be read: No such file or directory\n"),
        (["import", "x.json"], "{", "Error: x.json: not JSON: Expecting property name enclosed in double quotes"),
        (["import", "x.json"], "{}", "Error: x.json: name: expected the name of the suite, found nothing\n"),
        (["import", "x.json"], '[{"function": []}]', "Error: x.json: a list of BFCL cannot be run; 'tracegrade rules"),
        (
            ["import", "x.json"],
            '{"name": "x", "test_cases": [{"prompt": "a", "expected_params": []}]}',
            "Error: x.json: test_cases[0]: expected_params: expected an object, found an empty list\n",
        ),
        (["show", "none"], "", "Error: no suite 'none' is stored; 'tracegrade suite list' shows those that are\n"),
        (["export", "none"], "", "Error: no suite 'none' is stored; 'tracegrade suite list' shows those that are\n"),
        (["export", "kept", "-o", "x.json"], "mine", "Error: x.json: exists already; --replace overwrites it"),
        (["export", "kept", "-o", "no/x.json"], "", "Error: no/x.json: cannot be written: No such file or directory\n"),
        (
            ["run", "none", "--model", "m-1", "--models", "MODELS"],
            "",
            "Error: none: there is no such file, and it names no stored suite: no suite 'none' is stored",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(place: Path, arguments: list[str], written: str, said: str) -> None:
    imported("weather.json", "--name", "kept")
    (place / "x.json").write_text(written)
    models = write_models(place, "http://127.0.0.1:9/v1", api_key="k")
    refused = run(*[str(models) if item == "MODELS" else item for item in arguments])
    assert refused.exit_code == 2
    assert refused.stderr.startswith(said)
    assert refused.stderr.count("\n") == 1


def test_what_an_import_leaves_out_is_said(place: Path) -> None:
    case = {"prompt": "a", "expected_parms": {}}
    (place / "x.json").write_text(json.dumps({"name": "x", "version": 2, "test_cases": [case]}))
    assert run("import", "x.json").stderr == (
        "Note: 'version' is not known and left out.\n"
        "Note: test_cases[0]: 'expected_parms' is not known and left out; did you mean 'expected_params'?\n"
        "Note: 1 test case has no expected_tool: that is taken as null, no call expected.\n"
    )


def test_the_tools_of_a_server_are_stored(place: Path) -> None:
    with scripted(Script()) as base:
        made = run("import", "--mcp", f"{base}/mcp", "--allow-host", "127.0.0.1", "--name", "Shop")
    (head,) = rows("list")
    assert made.stdout == (
        f"stored Shop as {head['id']}: 1 tool, 0 cases\nNext, add cases on the page, or by the API, such as "
        '{"prompt": "...", "expected_tool": "get_weather", "expected_params": {"city": "..."}}\n'
    )
    (shown,) = rows("show", "Shop")
    assert shown["tools"][0]["function"]["name"] == TOOL["name"]


def right(body: dict[str, Any]) -> Answer:
    return calling(("get_weather", {"city": prompt_of(body).removeprefix("Weather in ").removesuffix("?")}))


def test_a_stored_suite_runs_by_id_and_name_as_its_file_does(place: Path) -> None:
    (place / "one.json").write_text(json.dumps({**SUITE, "name": "One", "test_cases": SUITE["test_cases"][:1]}))  # type: ignore[index]
    id_ = imported("one.json")
    with serving(right) as server:
        models = write_models(place, server.url, api_key="k")
        for number, suite in enumerate((id_, "One", "one.json"), 1):
            done = run("run", suite, "--model", "m-1", "--models", str(models), "--run", f"r{number}")
            assert done.exit_code == 0, done.output
    with reading_store("sqlite:///data/tracegrade.db") as connection:
        runs = stored_runs(connection, "default")
    assert [found.source for found in runs] == [f"suite:{id_}", f"suite:{id_}", "one.json"]
    assert len({found.judgement_hash for found in runs}) == 1
    assert len({found.selection["suite_hash"] for found in runs}) == 1
