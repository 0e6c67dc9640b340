import pytest

from build.metric_snapshots import two_roles


@pytest.fixture
def snapshots():
    return two_roles()
