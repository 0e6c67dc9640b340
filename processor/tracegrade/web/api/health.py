"""What came in, what became of it, and how far each role is."""

from collections.abc import Mapping
from time import time_ns
from typing import Any

from pydantic import Field

from tracegrade.web.api.operation import Document, Operation
from tracegrade.web.sources import Sources


class ConditionDocument(Document):
    """A state that lasts; the README lists the names."""

    name: str
    where: str = Field(description="Of which journal, exporter and so on; empty where there is one of it")
    since_ns: int
    message: str


class RoleDocument(Document):
    """One role of ``serve``, and its metrics by name, as ``/metrics`` has them."""

    role: str
    time_ns: int = Field(description="When it said so")
    age_s: float
    conditions: list[ConditionDocument] = Field(description="What is wrong in it now, the oldest first")
    metrics: dict[str, list[dict[str, Any]]]


class Health(Document):
    """The roles that said something, of one moment; none before the first second of the first start."""

    roles: list[RoleDocument]


def show_health(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """What both roles published last."""
    now_ns = time_ns()
    return {
        "roles": [
            {
                "role": snapshot["role"],
                "time_ns": snapshot["time_ns"],
                "age_s": max(0, now_ns - snapshot["time_ns"]) / 1e9,
                "conditions": snapshot.get("conditions", []),
                "metrics": snapshot["metrics"],
            }
            for snapshot in sources.snapshots()
        ]
    }


OPERATIONS = (
    Operation(
        "GET", "/health", "showHealth", "What came in, and what became of it", show_health, Health, needs_store=False
    ),
)
