"""All files of operations, in the order in which the document shows them."""

from tracegrade.compare.web.api import backtests, compare
from tracegrade.suites.web.api import evals as tool_evals
from tracegrade.suites.web.api import experiments as tool_experiments
from tracegrade.suites.web.api import jobs, suites
from tracegrade.web.api import (
    alerts,
    deletions,
    experiments,
    health,
    results,
    rules,
    sessions,
    traces,
)

ROUTERS = (
    rules.router,
    results.router,
    traces.router,
    sessions.router,
    experiments.router,
    jobs.router,
    compare.router,
    backtests.router,
    alerts.router,
    health.router,
    deletions.router,
)

TOOL_EVAL_ROUTERS = (suites.router, tool_evals.router, tool_experiments.router)
"""Those under ``/api`` itself: suites, their runs and experiments, where clients of the field look for them."""
