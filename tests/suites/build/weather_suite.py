"""The suite that the documentation of suites shows."""

from typing import Any

WEATHER_SUITE: dict[str, Any] = {
    "name": "Weather API Suite",
    "description": "Tests weather tool calling",
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Get current weather for a city",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "description": "City name"},
                        "units": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                    },
                    "required": ["city"],
                },
            },
        }
    ],
    "test_cases": [
        {
            "prompt": "What's the weather in Paris?",
            "expected_tool": "get_weather",
            "expected_params": {"city": "Paris"},
        },
        {
            "prompt": "Temperature in Tokyo in Fahrenheit",
            "expected_tool": "get_weather",
            "expected_params": {"city": "Tokyo", "units": "fahrenheit"},
        },
    ],
}
