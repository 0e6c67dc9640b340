"""What was received, what became of it, and the state of each role."""

from time import time_ns
from typing import Any

from pydantic import Field

from tracegrade.web.api.documents import Document, ExactJson
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import ApiSources, NoParameters

router = Operations()


class ConditionDocument(Document):
    """A state that lasts; docs/reference/metrics.md lists the names."""

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


@router.operation("GET /health", "What was received, and what became of it", Health)
def show_health(sources: ApiSources, query: NoParameters) -> ExactJson:
    """Conditions and metrics of each role, as it published them last."""
    now_ns = time_ns()
    roles = [
        {
            "role": snapshot["role"],
            "time_ns": snapshot["time_ns"],
            "age_s": max(0, now_ns - snapshot["time_ns"]) / 1e9,
            "conditions": snapshot.get("conditions", []),
            "metrics": snapshot["metrics"],
        }
        for snapshot in sources.snapshots()
    ]
    return ExactJson({"roles": roles})
