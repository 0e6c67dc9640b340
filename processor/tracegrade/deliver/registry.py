"""The sinks: where results go. A new one is a file in ``sinks/`` with its ``open_sinks``, and a line here.

Other things follow from a sink's name: its position in the results journal, after which retention deletes nothing, its
metrics, and the condition that reports its failures.
"""

from collections.abc import Callable, Iterable

from tracegrade.deliver.sink import Sink, SinkContext
from tracegrade.deliver.sinks import metrics, otlp, parquet, sql

# By file name: opens the sinks of one kind that the settings ask for: none, one or several.
SINKS: dict[str, Callable[[SinkContext], Iterable[Sink]]] = {
    "sql": sql.open_sinks,
    "metrics": metrics.open_sinks,
    "otlp": otlp.open_sinks,
    "parquet": parquet.open_sinks,
}


def open_sinks(context: SinkContext) -> list[Sink]:
    """All sinks that the settings ask for.

    Raises:
        ValueError: two sinks have one name, and would share a position.
    """
    sinks = [sink for open_kind in SINKS.values() for sink in open_kind(context)]
    names = [sink.name for sink in sinks]
    if len(set(names)) < len(names):
        raise ValueError(f"deliver/registry.py: expected a name of its own for each sink, found {sorted(names)}")
    return sinks
