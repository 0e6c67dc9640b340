from sqlalchemy import Engine

from build.judged_traces import judged, tool_call
from tracegrade.store.open import reading
from tracegrade.store.senders import called_tools
from tracegrade.store.write import StoreWriter


def test_an_empty_store_has_no_tool(engine: Engine) -> None:
    with reading(engine) as connection:
        assert called_tools(connection) == {}


def test_the_tools_of_the_newest_traces_are_named_once_as_rules_see_them(engine: Engine) -> None:
    def calls(*names: str) -> list[dict[str, object]]:
        return [tool_call(name=name, raw_name=f"mcp.{name}", call_id=str(at)) for at, name in enumerate(names)]

    for number, names in enumerate((["old"], ["refund", "refund", "find_order"], [], ["refund"]), 1):
        StoreWriter(engine).write([judged(number, tool_calls=calls(*names))])
    with reading(engine) as connection:
        assert called_tools(connection) == {"shop": {"old", "refund", "find_order"}}
        assert called_tools(connection, newest=3) == {"shop": {"refund", "find_order"}}
        assert called_tools(connection, newest=1) == {"shop": {"refund"}}
