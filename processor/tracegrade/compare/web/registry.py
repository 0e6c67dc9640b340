"""What comparing adds to the page and the API."""

from pathlib import Path

from tracegrade.compare.sides import CompareError
from tracegrade.compare.web.addresses import compare_address, compare_traces_address, passing_address
from tracegrade.compare.web.api import router
from tracegrade.compare.web.backtesting import WrongRule
from tracegrade.compare.web.pages import backtest, compare, traces
from tracegrade.web.api.app import said_as
from tracegrade.web.part import WebPart

WEB = WebPart(
    pages={"/compare": compare.show, "/compare/traces": traces.show},
    actions={"/rules/{rule_id}/backtest": (backtest.act, "run")},
    routers=[("compare", "experiments", router)],
    api_errors={
        CompareError: said_as(409, "not-possible", "Cannot be compared"),
        WrongRule: said_as(400, "invalid-parameter", "Wrong parameter"),
    },
    templates=Path(__file__).with_name("templates"),
    addresses=[compare_address, compare_traces_address, passing_address],
)
