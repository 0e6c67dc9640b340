"""What suites add to the page and the API."""

from pathlib import Path

from starlette.routing import WebSocketRoute

from tracegrade.suites.imported import SuiteError
from tracegrade.suites.jobs.suite_request import WrongRequest
from tracegrade.suites.keeping import NoSuchSuite
from tracegrade.suites.web import addresses, websocket
from tracegrade.suites.web.api import jobs
from tracegrade.suites.web.api.app import tool_eval_api
from tracegrade.suites.web.job_events import JobEvents
from tracegrade.suites.web.masked import WITHOUT_VALUES
from tracegrade.suites.web.pages import cases, evals, experiments, from_traces, imports, run_eval, suites
from tracegrade.suites.web.run_cases import show_run
from tracegrade.suites.web.servers import NotListed
from tracegrade.web import app as pages
from tracegrade.web.api import app as api
from tracegrade.web.part import WebPart

WEB = WebPart(
    pages={
        "/suites": suites.show_all,
        "/suites/new": suites.show_new,
        "/suites/import": imports.show,
        "/suites/import-mcp": imports.show_mcp,
        "/suites/from-traces": from_traces.show,
        "/suites/{suite_id}": suites.show,
        "/suites/{suite_id}/edit": suites.show_edit,
        "/suites/{suite_id}/new-case": cases.show_new,
        "/suites/{suite_id}/cases/{case_id:path}": cases.show,
        "/evals": evals.show_all,
        "/evals/new": run_eval.show,
        "/evals/{id}": evals.show,
        "/experiments": experiments.show_all,
        "/experiments/{experiment:path}": experiments.show,
        "/runs/{run:path}": show_run,
    },
    actions={
        "/suites/new": (suites.create, "run"),
        "/suites/import": (imports.import_json, "run"),
        "/suites/import-mcp": (imports.import_server, "run"),
        "/suites/from-traces": (from_traces.add, "run"),
        "/suites/{suite_id}/edit": (suites.change, "run"),
        "/suites/{suite_id}/delete": (suites.delete, "admin"),
        "/suites/{suite_id}/delete-case": (suites.delete_case, "run"),
        "/suites/{suite_id}/new-case": (cases.create, "run"),
        "/suites/{suite_id}/cases/{case_id:path}": (cases.change, "run"),
        "/evals": (run_eval.run, "run"),
        "/evals/{id}": (evals.change, "run"),
        "/evals/{id}/delete": (evals.delete, "admin"),
        "/experiments": (experiments.begin, "run"),
        "/experiments/{experiment:path}": (experiments.change, "run"),
    },
    routes=[WebSocketRoute("/ws", websocket.stream)],
    routers=[("jobs", "experiments", jobs.router)],
    apis=[tool_eval_api],
    states={"job_events": JobEvents},
    errors={NoSuchSuite: pages.said_as(404, "Not found", "There is {}.")},
    api_errors={
        NoSuchSuite: api.said_as(404, "not-found", "Not found", said="there is {}"),
        WrongRequest: api.said_as(400, "invalid-parameter", "Wrong parameter"),
        SuiteError: api.said_as(400, "invalid-parameter", "Wrong suite"),
        NotListed: api.said_as(409, "not-possible", "Cannot be imported"),
    },
    templates=Path(__file__).with_name("templates"),
    addresses=[
        addresses.case_address,
        addresses.eval_address,
        addresses.run_eval_address,
        addresses.suite_address,
    ],
    without_values=WITHOUT_VALUES,
    takes_traces=[("/suites/from-traces", "Make cases of a suite")],
)
