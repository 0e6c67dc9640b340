from collections.abc import Iterator

import pytest

from build.mock_cluster import MockCluster


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """A mock cluster with the topics of a journal."""
    mock = MockCluster()
    yield mock
    mock.end()
