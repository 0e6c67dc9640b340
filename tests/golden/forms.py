"""Each form that programs read, of a few traces of the shop, judged and stored at a time that never changes."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from build.replayed import request, write_rule, write_source
from build.shop import (
    GOOD,
    REFUNDED,
    RULES,
    SECOND,
    WRONG_ORDER,
    WRONG_QUANTITY,
    crawl,
    fill,
    fire,
    order,
    refund,
    search,
    without_root,
)
from build.site import serving
from tracegrade.cli import main
from tracegrade.deliver.carriers import carriers
from tracegrade.deliver.events import events
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import reading_store
from tracegrade.store.read import newest_traces

FOLDER = Path(__file__).with_name("recorded")
NOW_NS = 1_767_225_600 * SECOND  # 2026-01-01

_TRACE = f"{0xA1 << 120 | 1:032x}"  # the first of the traces below; its session is "talk"
_RULE = "order-steps-out-of-order"
_TIME = "since=2025-12-31T00:00:00Z&until=2026-01-01T00:00:00Z"
_CASES = [
    {"id": "passes", "evaluator": "tool-call-count", "criteria": {"minimum": 1}, "calls": [{"name": "a"}]},
    {"id": "fails", "evaluator": "tool-call-order", "criteria": {"tool_calls_order": ["a"]}, "calls": []},
    {"id": "cannot", "evaluator": "no-such", "criteria": {}, "calls": []},
]
_COMMANDS = (
    "results list",
    f"results show {_TRACE}",
    "results stats",
    "traces list",
    f"traces show {_TRACE}",
    f"why {_TRACE}",
    "why talk",
    "alerts list",
    "experiments list",
    "experiments show shop",
    "experiments timeline shop",
)
_OPERATIONS = (
    "rules",
    f"rules/{_RULE}",
    "results",
    f"rates?{_TIME}",
    f"trends?{_TIME}",
    "traces",
    f"traces/{_TRACE}",
    f"traces/{_TRACE}/why",
    "sessions",
    "sessions/talk",
    "experiments",
    "experiments/shop",
    "runs?experiment=shop",
    "runs/first",
    "jobs",
    "incidents",
    "alerts/waiting",
    "silences",
    "slos",
    "deletions",
)
_VIEWS = ("results", "evaluations", "decisions", "tool_calls", "agent_runs")


def forms(folder: Path) -> Iterator[tuple[str, Any]]:
    """Each form's name and JSON; a data folder is made in `folder`, and times are those of `NOW_NS`."""
    data = folder / "data"
    with ExitStack() as stack:
        stack.enter_context(patch("time.time_ns", lambda: NOW_NS))
        stack.enter_context(patch("time.time", lambda: NOW_NS / SECOND))
        rules = _shop(data)

        def run(*arguments: str) -> list[Any]:
            done = CliRunner().invoke(main, [*arguments, "--format", "json"], catch_exceptions=False)
            assert done.exit_code in (0, 1), f"{arguments}: {done.output}"
            return [json.loads(line) for line in done.stdout.splitlines()]

        yield from _of_files(folder, data, run)
        for command in _COMMANDS:
            in_force = ("--rules", str(RULES)) if command.startswith("why") else ()
            yield f"command {command}", run(*command.split(), *in_force, "--data-dir", str(data))
        with serving(data) as site:
            site.rules = rules
            for operation in _OPERATIONS:
                answer = site.get(f"/api/v1/{operation}")
                assert answer.status == 200, f"{operation}: {answer.text}"
                yield f"operation {operation}", json.loads(answer.text)
        yield from _sent(data)
        with closing(sqlite3.connect(data / "tracegrade.db")) as connection:
            connection.row_factory = sqlite3.Row
            for view in _VIEWS:
                yield f"view {view}", [dict(row) for row in connection.execute(f"SELECT * FROM {view}")]


def _shop(data: Path) -> RuleSet:
    """A store with one trace of each kind, an incident that goes on, and one that ended."""
    some = [
        (order(1, NOW_NS - 400 * SECOND, "1.5.0", WRONG_ORDER, "talk"), "talk"),
        (order(2, NOW_NS - 390 * SECOND, "1.4.2", GOOD, "talk"), "talk"),
        (crawl(3, NOW_NS - 380 * SECOND, 5), None),
        (without_root(4, NOW_NS - 300 * SECOND), None),
        (refund(5, NOW_NS - 200 * SECOND, REFUNDED), None),
        (search(6, NOW_NS - 100 * SECOND, "London", "Paris"), None),
        (order(7, NOW_NS - 90 * SECOND, "1.5.0", WRONG_QUANTITY), None),
    ]
    rules = fill(data, iter(some))
    fire(data, rules, NOW_NS, [_TRACE])
    return rules


def _of_files(folder: Path, data: Path, run: Callable[..., list[Any]]) -> Iterator[tuple[str, Any]]:
    """What commands say of files: of one of three traces, of which one passes, and of one of cases."""
    wrong, right = ["create_order", "check_inventory"], ["check_inventory", "create_order"]
    source = write_source(folder, request(1, *wrong), request(2, *right), request(3, "lookup_order"))
    rule = write_rule(folder)
    yield "command extract", run("extract", source)
    yield "command replay", run("replay", source, "--rules", rule)
    batch = folder / "cases.jsonl"
    batch.write_text("".join(json.dumps(case) + "\n" for case in _CASES))
    yield "command evaluate --batch", run("evaluate", "--batch", str(batch))
    stored = "--experiment", "shop", "--run", "first", "--data-dir", str(data)
    run("replay", source, "--rules", rule, *stored)


def _sent(data: Path) -> Iterator[tuple[str, Any]]:
    """The events and carrier spans of some traces and of the session, with values and without."""
    with reading_store(f"sqlite:///{data / 'tracegrade.db'}") as connection:
        results = [*newest_traces(connection, 3), *newest_traces(connection, 1, sessions=True)]
    for include_values in (False, True):
        values = "with values" if include_values else "without values"
        made = [LogRecord.FromString(event) for result in results for event in events(result, include_values)]
        yield f"events {values}", [MessageToDict(record) for record in made]
        spans = [Span.FromString(carrier) for result in results for carrier in carriers(result, include_values)]
        yield f"carriers {values}", [MessageToDict(span) for span in spans]


_OF_THIS_RUN = {"git_revision", "tracegrade", "written_ns"}


def file_of(name: str) -> Path:
    """Where a form is recorded: a line for each record."""
    return FOLDER / f"{re.sub('[^a-z0-9]+', '-', name)}.jsonl"


def lines_of(form: Any, folder: Path) -> str:
    """A form as it is recorded: what differs by run, checkout and `folder` is left out."""
    records = form if isinstance(form, list) else [form]
    lines = (json.dumps(_same_in_every_run(record), sort_keys=True, ensure_ascii=False) for record in records)
    return "".join(f"{line}\n" for line in lines).replace(str(folder), "FOLDER")


def _same_in_every_run(value: Any) -> Any:
    if isinstance(value, list):
        return [_same_in_every_run(item) for item in value]
    if isinstance(value, dict):
        return {key: "" if key in _OF_THIS_RUN else _same_in_every_run(item) for key, item in value.items()}
    return value
