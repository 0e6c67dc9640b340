"""The interface of delivery: a sink says whether it took a batch, and if not, whether another attempt makes sense."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.journal.retention import WhenFull
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.telemetry.metrics import Telemetry
from tracegrade.telemetry.series_bound import MAX_NAMES

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from tracegrade.store.several_processes import HasTurns


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of delivering a batch: done; retry (later, not before ``retry_after_s``); failed (for good).

    ``failed_records`` counts the records that were given up while the others of the batch were delivered. ``rest`` are
    those of a batch that is done which need more work than others shall wait for: they are delivered again, with what
    comes meanwhile, until none is left.
    """

    kind: Literal["done", "retry", "failed"]
    reason: str = ""
    retry_after_s: float | None = None
    failed_records: int = 0
    rest: Sequence[TraceResult] = ()


DONE = Delivery("done")


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The things that a sink may need when it is opened.

    ``store`` is open for writing. ``telemetry`` is the judge's. ``data_folder`` is where a sink may keep files of its
    own. ``instance_id`` names this instance to peers. ``exporters`` are the settings' ``exporters`` by name.
    ``include_values`` says whether values of traces may be sent, or only their paths. ``parquet`` is the section of
    that name. ``deleted`` gives the ids of traces whose deletion was requested, as of now. ``has_turns`` chooses the
    traces of which the store notes turns of sessions; None where judges are told otherwise. ``max_names`` is the
    setting ``store.max_names``.
    """

    store: "Engine"
    telemetry: Telemetry
    data_folder: Path
    instance_id: str
    exporters: Mapping[str, ExporterSettings]
    include_values: bool
    parquet: ParquetSettings | None = None
    deleted: Callable[[], Container[bytes]] = frozenset
    has_turns: "HasTurns | None" = None
    max_names: int = MAX_NAMES


class Sink(Protocol):
    """One end of the path. Retrying, waiting and positions are in `consumer`, never in a sink.

    ``name`` is unique: the label of its metrics, and of its position in the results journal. ``when_full`` says what
    happens when it is further behind than the size bound of that journal: judging waits (refuse), or the sink loses the
    oldest results (drop_oldest). ``failing`` is the condition that holds while it takes nothing: one of
    `tracegrade.telemetry.conditions.KINDS`, and where.
    """

    name: str
    when_full: WhenFull
    failing: tuple[str, str]

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        """Deliver every record of the batch, in order. A record may come again: writing twice must store once."""
        ...

    async def close(self) -> None:
        """Close connections; no delivery is under way."""
        ...
