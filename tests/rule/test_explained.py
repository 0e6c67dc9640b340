from typing import Any

from build import each, rule
from tracegrade.rule.explained import explained


@each(
    ("fields", "said"),
    [
        ({"expected_output": {"$regex": "^ORD"}}, "With expected_output: what has a part that matches '^ORD';"),
        ({"expected_output": {"$gte": 1, "$lt": 5}}, "With expected_output: at least 1 and is less than 5;"),
        ({"expected_output": {"$literal": {"$regex": "x"}}}, 'With expected_output: {"$regex":"x"};'),
        ({"expected_output": {"id": {"$gt": 1}}}, 'With expected_output: {"id":{"$gt":1}};'),
        ({"expected_output": {"$regex": "x"}, "matchers": False}, 'With expected_output: {"$regex":"x"};'),
    ],
)
def test_a_matcher_is_said_as_it_was_read(fields: dict[str, Any], said: str) -> None:
    text = explained(rule(evaluate=[{"evaluator": "json-similarity", **fields}]), "rule.yaml")
    assert said in " ".join(text.split())
