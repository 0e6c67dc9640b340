from collections.abc import Callable

from tracegrade.cel.expression import CelContext, CelExpression
from tracegrade.model.tri import Unknown


def test_a_variable_is_worked_out_and_handed_over_once_when_it_is_named() -> None:
    asked: list[str] = []

    def telling(name: str, value: object) -> Callable[[], object]:
        def tell() -> object:
            asked.append(name)
            return value

        return tell

    calls = [{"name": name, "failed": False} for name in "abc"]
    variables = {"calls": calls, "service": "shop", "prompt": None}
    given = {name: telling(name, value) for name, value in variables.items()}
    context = CelContext()
    last = CelExpression("calls.exists(c, c.name == calls[size(calls) - 1].name && !c.failed)")
    assert last.holds(context, lambda: given, None) is True
    assert last.holds(context, lambda: given, None) is True
    assert asked == ["calls"]
    # What the interpreter has it need not ask for: of a loop, each turn would.
    assert context.having([], dict).variables == {"calls": calls}
    assert CelExpression("service == 'shop' || prompt == ''").holds(context, lambda: given, None) is True
    unknown = CelExpression("prompt == ''").holds(context, lambda: given, None)
    assert isinstance(unknown, Unknown)
    assert (unknown.kind, unknown.said) == ("failed", "cel: the prompt cannot be read")
    assert asked == ["calls", "prompt", "service"]


def test_where_a_value_of_a_call_is_missing_the_answer_says_which() -> None:
    calls = [{"name": "find"}]
    unknown = CelExpression("calls.all(c, c.output == 1)").holds(CelContext(), lambda: {"calls": lambda: calls}, None)
    assert isinstance(unknown, Unknown)
    assert (unknown.kind, unknown.part, unknown.said) == ("absent", "output", "cel: there is no output")
