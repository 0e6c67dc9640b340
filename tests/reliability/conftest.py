import pytest


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often each role is killed."""
    number: int = request.config.getoption("--kills")
    return number
