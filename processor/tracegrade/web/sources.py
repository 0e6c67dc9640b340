"""The sources that the page reads."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from starlette.requests import Request

from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of everything shown; each call gives the present state.

    ``store`` gives a connection that only reads, and raises `StoreError` while there is no store; ``snapshots`` gives
    the roles' published metrics, of one moment; [] while nothing was published. ``is_stopping`` says that long answers
    should end.
    """

    store: Callable[[], AbstractContextManager[Connection]]
    rule_set: Callable[[], RuleSet]
    snapshots: Callable[[], list[dict[str, Any]]]
    config: Config
    is_stopping: Callable[[], bool] = lambda: False


def sources_of(request: Request) -> Sources:
    """The sources of the app that answers `request`."""
    sources: Sources = request.app.state.sources
    return sources
