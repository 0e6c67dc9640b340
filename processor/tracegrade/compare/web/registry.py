"""What comparing adds to the page and the API."""

from pathlib import Path

from tracegrade.compare.sides import CompareError
from tracegrade.compare.web.addresses import compare_address, compare_traces_address
from tracegrade.compare.web.api import backtests as backtest_operations
from tracegrade.compare.web.api import compare as compare_operations
from tracegrade.compare.web.backtesting import WrongRule
from tracegrade.compare.web.pages import backtest, compare, traces
from tracegrade.web.api import app as api
from tracegrade.web.part import WebPart

WEB = WebPart(
    pages={"/compare": compare.show, "/compare/traces": traces.show},
    actions={"/rules/{rule_id}/backtest": (backtest.act, "run")},
    routers=[
        ("compare", "experiments", compare_operations.router),
        ("backtests", "compare", backtest_operations.router),
    ],
    api_errors={
        CompareError: api.said_as(409, "not-possible", "Cannot be compared"),
        WrongRule: api.said_as(400, "invalid-parameter", "Wrong parameter"),
    },
    templates=Path(__file__).with_name("templates"),
    addresses=[compare_address, compare_traces_address],
)
