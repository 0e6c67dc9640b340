import itertools

from build import each, trace
from tracegrade.extract.extract import extract
from tracegrade.rule.tool_aliases import ToolAliases

ALIASES = {"get_weather": ["weather-get_weather", "mcp__*__get_weather"], "search": ["*search*", "find", "web-*"]}


@each(
    ("raw_name", "name"),
    [
        ("get_weather", "get_weather"),
        ("weather-get_weather", "get_weather"),
        ("mcp__city__get_weather", "get_weather"),
        ("mcp__get_weather", "mcp__get_weather"),
        ("websearch", "search"),
        ("web-get_weather", "search"),
        ("book", "book"),
        ("", ""),
    ],
)
def test_a_tool_is_known_by_the_name_that_rules_use(raw_name: str, name: str) -> None:
    aliases = ToolAliases(ALIASES)
    assert [aliases(raw_name), aliases(raw_name)] == [name, name]


def test_the_order_of_aliases_does_not_matter() -> None:
    written = {"a": ["x*", "xy"], "b": ["xyz*", "*z"], "c": ["y*", "?*"]}
    found = set()
    for order in itertools.permutations(written):
        aliases = ToolAliases({name: list(reversed(written[name])) for name in order})
        found.add(tuple(map(aliases, ("xy", "xyz1", "xz", "yz", "q", "a"))))
    # xy is written out; xyz* is longer than x*; of *z, x*, ?* and y*, all as long, the first by alphabet.
    assert found == {("a", "b", "b", "b", "c", "a")}


def test_calls_are_renamed_keep_their_raw_name_and_count_as_attempts_of_one_tool() -> None:
    calls = [{"id": n, "at": [n, n], "attributes": {"tool.name": name}} for n, name in ((1, "find"), (2, "search"))]
    for span in calls:
        span["attributes"]["input.value"] = "{}"
    extraction = extract(trace(calls), ToolAliases(ALIASES))
    assert [(call.name, call.raw_name, call.attempt) for call in extraction.calls] == [
        ("search", "find", 1),
        ("search", "search", 2),
    ]
