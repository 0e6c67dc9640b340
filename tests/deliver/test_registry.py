import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

import tracegrade.deliver.sinks
from tracegrade.deliver.registry import SINKS, open_sinks
from tracegrade.deliver.sink import Sink, SinkContext
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.telemetry.conditions import KINDS
from tracegrade.telemetry.metrics import Telemetry


@pytest.fixture
def context(tmp_path: Path) -> SinkContext:
    """With two exporters."""
    exporters = {
        "otlp": ExporterSettings(endpoint="collector:4317"),
        "otlp/archive": ExporterSettings(endpoint="archive:4317", when_full="drop_oldest"),
    }
    return SinkContext(create_engine("sqlite://"), Telemetry("judge"), tmp_path, "here", exporters, False)


def test_each_file_of_the_folder_is_in_the_registry() -> None:
    (folder,) = tracegrade.deliver.sinks.__path__
    assert {path.stem for path in Path(folder).glob("*.py")} - {"__init__"} == set(SINKS)


async def opened(context: SinkContext) -> list[Sink]:
    """All sinks of `context`, closed again; clients are made in an event loop."""
    sinks = open_sinks(context)
    for sink in sinks:
        await sink.close()
    return sinks


def test_sinks_say_what_happens_when_they_fail_or_stay_behind(context: SinkContext) -> None:
    sinks = asyncio.run(opened(context))
    built_in = {
        "sql": ("refuse", ("store_unavailable", "")),
        "metrics": ("refuse", ("exporter_failing", "metrics")),
        "otlp": ("refuse", ("exporter_failing", "otlp")),
        "otlp/archive": ("drop_oldest", ("exporter_failing", "otlp/archive")),
    }
    said = {sink.name: (sink.when_full, sink.failing) for sink in sinks}
    assert said | built_in == said
    assert all(sink.failing[0] in KINDS for sink in sinks)


def test_two_sinks_of_one_name_would_share_a_position(context: SinkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINKS, "again", SINKS["metrics"])
    with pytest.raises(ValueError, match="a name of its own for each sink"):
        asyncio.run(opened(replace(context, exporters={})))
