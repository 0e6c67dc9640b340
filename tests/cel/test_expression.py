from collections.abc import Callable

from tracegrade.cel.expression import CelContext, CelExpression


def test_a_variable_is_worked_out_and_handed_over_once_when_it_is_named() -> None:
    asked: list[str] = []

    def telling(name: str, value: object) -> Callable[[], object]:
        def tell() -> object:
            asked.append(name)
            return value

        return tell

    calls = [{"name": name, "failed": False} for name in "abc"]
    variables = {"calls": calls, "service": "shop", "prompt": None}
    context = CelContext({name: telling(name, value) for name, value in variables.items()})
    last = CelExpression("calls.exists(c, c.name == calls[size(calls) - 1].name && !c.failed)")
    assert last.holds(context, None) is True
    assert last.holds(context, None) is True
    assert asked == ["calls"]
    # What the interpreter has it need not ask for: of a loop, each turn would.
    assert context.having([]).variables == {"calls": calls}
    assert CelExpression("service == 'shop' || prompt == ''").holds(context, None) is True
    assert str(CelExpression("prompt == ''").holds(context, None)).startswith("cel: ")
    assert asked == ["calls", "prompt", "service"]
