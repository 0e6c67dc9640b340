"""Tests with a real Kafka: run where this folder, or what is in it, is asked for; they need Java and Maven."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka.broker import Broker, missing
from kafka.collector import Collector


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lacking = missing()
    asked = any("kafka" in argument for argument in config.args)
    for item in items:
        if item.path.parent == Path(__file__).parent and (lacking or not asked):
            reason = lacking or "starts a real Kafka: pytest tests/system/kafka runs it"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running Kafka without topics, for all tests of a file."""
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def collector() -> Iterator[Collector | None]:
    """A Collector that is not started; None unless TRACEGRADE_TEST_COLLECTOR names the folder to build it in."""
    built = os.environ.get("TRACEGRADE_TEST_COLLECTOR")
    made = Collector(Path(built)) if built else None
    yield made
    if made is not None:
        made.stop()


@pytest.fixture
def at_end() -> Iterator[ExitStack]:
    """What is to be done also after a failure: processes that are left would go on."""
    with ExitStack() as stack:
        yield stack
