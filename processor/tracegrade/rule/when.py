"""``when``: after which call a rule begins to judge."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from tracegrade.evaluate.constraints.sides import Side


def _present(value: Any) -> Any:
    if value is None:
        raise ValueError("expected a tool, {tool, where} or a list of them, found nothing")
    return value


When: TypeAlias = Annotated[Side | None, BeforeValidator(_present)]
