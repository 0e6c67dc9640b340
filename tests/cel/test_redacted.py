"""What an expression says where something was redacted: it is true or false only where that follows from the rest."""

from build import each
from tracegrade.cel.expression import CelContext, CelExpression
from tracegrade.model.json_value import JsonValue

MASK = "[redacted:email]"


@each(
    ("expression", "arguments", "holds"),
    [
        ("calls.all(c, c.name != 'ask' || c.arguments.to == 'ann')", {"to": MASK}, True),
        ("calls.all(c, c.arguments.to == 'ann')", {"to": MASK}, None),
        ("calls.all(c, c.arguments.id == 1)", {"to": MASK, "id": 1}, True),
        ("calls.all(c, !has(c.arguments.to))", {"to": MASK}, None),
        ("calls.all(c, !has(c.arguments.to))", {"[redacted]": 1}, None),
        # A list is gone as a whole, and it is there all the same.
        ("calls.all(c, !has(c.arguments.to))", {"to": ["ann", MASK]}, None),
        ("calls.all(c, !has(c.arguments.to) || c.arguments.to.all(to, to == 'ann'))", {"to": ["eve", MASK]}, None),
        ("calls.all(c, has(c.arguments.to) ? c.arguments.to[0].id == 1 : true)", {"to": [{"id": 2, "x": MASK}]}, False),
    ],
)
def test_what_was_redacted_is_neither_there_nor_not(
    expression: str, arguments: dict[str, JsonValue], holds: bool | None
) -> None:
    calls: list[JsonValue] = [{"name": "mail", "arguments": arguments}]
    found = CelExpression(expression).holds(CelContext(redacted=True), lambda: {"calls": lambda: calls}, None)
    assert (found if isinstance(found, bool) else None) is holds
