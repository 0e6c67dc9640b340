"""Tests with a real Kafka: run where this folder, or what is in it, is asked for; they need Java and Maven."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.broker import Broker, missing


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
