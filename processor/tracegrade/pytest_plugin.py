"""The pytest plugin: fixture ``tracegrade``, which collects and judges the spans of a test.

pytest loads this module in every run of every project that has TraceGrade installed. So it imports nothing but pytest,
which is here already; the rest is loaded when a test asks for the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tracegrade.testing.agent_test import AgentTest

_RULES = "tracegrade_rules"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting ``tracegrade_rules``."""
    text = "Rule files, folders and builtin:NAME by which the fixture 'tracegrade' judges, one a line"
    parser.addini(_RULES, text, type="linelist", default=[])


@pytest.fixture
def tracegrade(request: pytest.FixtureRequest) -> "Iterator[AgentTest]":
    """Collects the spans of this test, and judges them by rules."""
    from tracegrade.testing.agent_test import AgentTest

    settings = request.config
    with AgentTest(settings.rootpath, settings.getini(_RULES), pytest.fail) as collecting:
        yield collecting
