"""Runs of a suite with two scripted models: one does most of it well, the other has every oddity."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from suites.build.scripted_models import Answer, calling, prompt_of, saying, serving, write_models
from tracegrade.cli import main

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "units": {"type": "string"}},
            "required": ["city"],
        },
    },
}
FLIGHT = {
    "prompt": "Book a flight from NYC to London",
    "expected_tool": "book_flight",
    "expected_params": {"origin": "NYC"},
    "multi_turn": True,
    "max_rounds": 5,
    "optimal_hops": 2,
    "valid_prerequisites": ["search_flights"],
    "mock_responses": {"search_flights": {"flights": ["FL123"]}},
}
CASES: list[dict[str, Any]] = [
    {"prompt": "Weather in Paris?", "expected_tool": "get_weather", "expected_params": {"city": "Paris"}},
    {
        "prompt": "Tokyo in <b>Fahrenheit</b>",
        "expected_tool": ["get_weather", "weather"],
        "expected_params": {"city": "Tokyo", "units": "fahrenheit"},
    },
    {"prompt": "Weather in Rome?", "expected_tool": "get_weather", "expected_params": {"city": "Rome"}},
    {"prompt": "Weather in Oslo?", "expected_tool": "get_weather"},
    {"prompt": "Hello", "expected_tool": None},
    FLIGHT,
]
SUITE = {"name": "Weather", "system_prompt": "Use the tools.", "tools": [TOOL], "test_cases": CASES}


class Script:
    """Answers as the models: ``good`` well; ``odd`` with the wrong units, words in every second answer on Rome, an
    error on Oslo, and detours."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], int] = {}

    def __call__(self, body: dict[str, Any]) -> Answer:
        prompt, model = prompt_of(body), body["model"]
        key = model, prompt
        self._asked[key] = self._asked.get(key, 0) + 1
        if "flight" in prompt:
            return self._flight(body)
        city = next((name for name in ("Paris", "Tokyo", "Rome", "Oslo") if name in prompt), "")
        if not city:
            return saying("Hello!")
        if model == "odd" and city == "Oslo":
            return Answer({"error": {"message": "out of <order>"}}, 500)
        if model == "odd" and city == "Rome" and self._asked[key] % 2:
            return saying("It is <i>sunny</i>.")
        units = {"units": "fahrenheit" if model == "good" else "kelvin"} if city == "Tokyo" else {}
        if model == "odd" and city == "Paris":
            return saying(json.dumps({"name": "get_weather", "arguments": {"city": city}}))
        return calling(("get_weather", {"city": city, **units}))

    def _flight(self, body: dict[str, Any]) -> Answer:
        answered = sum(message["role"] == "tool" for message in body["messages"])
        if not answered:
            return calling(("search_flights", {"to": "London"}))
        if body["model"] == "odd" and answered == 1:
            return calling(("get_visa", {}))
        return calling(("book_flight", {"origin": "NYC"}))


def store_suite_runs(folder: Path, *more: str, suite: dict[str, Any] | None = None, script: Any = None) -> None:
    """Run a suite as ``suite run`` does, two models twice unless `more` says otherwise, into the store in `folder`."""
    path = folder / "weather.json"
    path.write_text(json.dumps(SUITE if suite is None else suite))
    with serving(script or Script()) as server:
        models = write_models(folder, server.url, models="{good: {}, odd: {}}", attempts=1, at_a_time=1)
        options = ["--models", str(models), "--data-dir", str(folder), "--experiment", "weather"]
        chosen = more or ("--model", "good", "--model", "odd", "--repeat", "2")
        done = CliRunner().invoke(main, ["suite", "run", str(path), *chosen, *options])
        assert done.exit_code == 0, done.output
