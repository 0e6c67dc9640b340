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
_ALLOW_CODE = "tracegrade_allow_code"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings ``tracegrade_rules`` and ``tracegrade_allow_code``."""
    text = "Rule files, folders and builtin:NAME by which the fixture 'tracegrade' judges, one a line"
    parser.addini(_RULES, text, type="linelist", default=[])
    code = "Whether these rules may name evaluators in Python files beside them, which then run in the tests"
    parser.addini(_ALLOW_CODE, code, type="bool", default=False)


@pytest.fixture
def tracegrade(request: pytest.FixtureRequest) -> "Iterator[AgentTest]":
    """Collects the spans of this test, and judges them by rules."""
    from tracegrade.testing.agent_test import AgentTest

    settings = request.config
    rules, allow_code = settings.getini(_RULES), settings.getini(_ALLOW_CODE)
    with AgentTest(settings.rootpath, rules, pytest.fail, allow_code=allow_code) as collecting:
        yield collecting
