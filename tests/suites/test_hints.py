"""What is told of a suite before it is run."""

from typing import Any

from build import each
from tracegrade.suites.hints import hints_of
from tracegrade.suites.stored import read_suite

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather for a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
OPEN = {
    "type": "function",
    "function": {"name": "open", "parameters": {"type": "object", "additionalProperties": True}},
}
GOOD = {"prompt": "What's the weather in Paris?", "expected_tool": "get_weather", "expected_params": {"city": "Paris"}}
FROM_MCP = "The tools of the MCP server at shop:80"


def hints(*cases: dict[str, Any], description: str = "") -> list[str]:
    document: Any = {"name": "x", "description": description, "tools": [WEATHER, OPEN], "test_cases": [*cases]}
    return hints_of(read_suite(document, "default", "a", 7).suite)


@each(
    "case",
    [
        GOOD,
        {**GOOD, "expected_tool": "GET_Weather"},
        {**GOOD, "expected_tool": ["unknown", "get_weather"]},
        {**GOOD, "expected_tool": "open", "expected_params": {"anything": 1}},
        {**GOOD, "expected_tool": ["get_weather", "open"], "expected_params": {"anything": 1}},
        {**GOOD, "expected_tool": "get_weather", "expected_params": {}},
        {"prompt": "Tell me a joke"},
    ],
)
def test_good_cases_need_no_hint(case: dict[str, Any]) -> None:
    assert hints(case) == []


def test_a_tool_that_the_suite_does_not_have_is_told() -> None:
    (hint,) = hints(*[{**GOOD, "expected_tool": "get_wether"}] * 7, GOOD)
    assert hint == (
        "No tool of the suite has the name that is expected in 7 cases (case-1, case-2, case-3, case-4, case-5, ...): "
        "no model can call it."
    )


def test_a_parameter_that_the_tool_does_not_have_is_told() -> None:
    (hint,) = hints({**GOOD, "expected_params": {"town": "Paris"}})
    assert hint.startswith("Parameters are expected in 1 case (case-1) that the schema of the tool does not have")


@each("prompt", ["get the current weather for a city", "The current weather", "weather", "Get weather."])
def test_a_prompt_that_is_a_description_is_told(prompt: str) -> None:
    (hint,) = hints({**GOOD, "prompt": prompt})
    assert hint.startswith("What is asked in 1 case (case-1) is a tool's description, or a word or two")
    assert "run with tool_choice 'required'" in hint


def test_a_suite_of_a_servers_tools_is_told_to_be_given_prompts() -> None:
    (hint,) = hints(description=FROM_MCP)
    assert hint.startswith("Descriptions of an MCP server's tools alone make poor prompts")
    assert hints(GOOD, description=FROM_MCP) == []
    assert hints() == []
