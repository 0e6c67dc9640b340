"""The operations on suites, evals and their experiments: an app with a document of its own."""

from tracegrade.suites.web.api import evals, experiments, suites
from tracegrade.web.api.app import Api

_DESCRIPTION = """Suites of test cases for models, beside `/api/v1`, whose document says how callers are known,
what times are, and which errors there are.
"""


ROUTERS = (suites.router, evals.router, experiments.router)
"""Those under ``/api`` itself: suites, their runs and experiments, where clients of the field look for them."""


def tool_eval_api() -> Api:
    """The operations on suites, their runs and experiments."""
    return Api(ROUTERS, "/api", _DESCRIPTION, 4 << 20, undecoded=["/experiments/"])
