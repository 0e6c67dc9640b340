"""A store with planted values wherever traces, runs, suites and incidents have values: what no page may show to all."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import update

from build import shop_incidents, store_with
from build.shop import GOOD, RULES, SECOND, Call, fill, messages, order, refund
from build.shop_runs import store_run
from build.stored_alerts import store_incident
from suites.build.scripted_models import calling, prompt_of, saying
from suites.build.suite_runs import SUITE, store_suite_runs
from tracegrade.alert.noting import Author, comment
from tracegrade.alert.silencing import silence
from tracegrade.history.runs.experiment_entries import report as report_entry
from tracegrade.model.span import SpanEvent
from tracegrade.model.trace import Trace
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.diagnosis import Reason
from tracegrade.store.open import open_store
from tracegrade.suites.keeping import add_suite
from tracegrade.suites.store.jobs import Job, add_job, cancel_job
from tracegrade.suites.store.tables import jobs

PLANTED = "planted"
"""In every planted value, and nowhere else."""

RULE = "order-differs-from-request"
TRACE, OTHER, FAILED = 1, 2, 3
SESSION = "talk"
JOB = "asked-with-a-prompt"

# Its own sentence for a fail has a value of the call.
_SAYS_A_VALUE = """\
id: refund-unasked
match: {agent: refund-agent}
explain: "{arguments.order_id} was refunded unasked"
evaluate:
  - {evaluator: constraints, constraints: [{before: issue_refund, comes: ask_customer}]}
"""

_BAD: list[Call] = [
    (
        "create_order",
        {"sku": "planted-sku", "qty": 5, "ship": {"country": "planted-country"}},
        {"status": "planted-status"},
    ),
    ("validate_user", {"user_id": "planted-user"}, ["planted-output"]),
    ("check_inventory", {"sku": "planted-stock", "qty": 2}, "planted-text"),
]


def trace_id(number: int) -> str:
    """The id of a trace of the shop."""
    return (0xA1 << 120 | number).to_bytes(16, "big").hex()


_SAID = ("Please order 2 of A-1 for user 123.", "Done: ORD-4711.", "I want my money back.", "Refund ORD-4711.")


def planted_store(folder: Path) -> tuple[RuleSet, str, str]:
    """Fill the store in `folder`; the rules in force, the id of a suite in it, and that of an incident."""
    now_ns = time.time_ns()
    own = folder / "own.rule.yaml"
    own.write_text(_SAYS_A_VALUE)
    rules = fill(folder, _traces(now_ns), load_rules([str(RULES), str(own)]))
    store_run(folder, rules, "prompts/1", [_BAD, GOOD], now_ns - 300 * SECOND)
    store_run(folder, rules, "usual/1", [GOOD] * 20, now_ns - 400 * SECOND)  # to which planted values are new
    store_run(folder, rules, "prompts/2", [GOOD, _BAD], now_ns - 200 * SECOND)
    alert = shop_incidents.fall(rules, now_ns, 1.0)[0]
    reason = Reason("as-asked", "sku differs", 2, 3, 0.5, 0, 3, 0.0, "found planted-example", trace_id(TRACE))
    engine = open_store(store_with(folder))
    with engine.begin() as connection:
        incident = store_incident(connection, replace(alert, facts=replace(alert.facts, reasons=[reason])))
    engine.dispose()
    url = f"sqlite:///{folder / 'tracegrade.db'}"
    author = Author("somebody", None, lambda text, tenant: text, lambda text, tenant: text)
    comment(url, incident.id, author, "planted comment", now_ns)
    silence(url, {"service": "elsewhere"}, 7200.0, "planted reason", author, now_ns)
    case = {
        "prompt": "planted prompt",
        "expected_tool": "get_weather",
        "expected_params": {"city": "planted-city"},
        "multi_turn": True,
        "mock_responses": {"get_weather": {"sky": "planted-sky"}},
    }
    suite = {**SUITE, "test_cases": [{**case, "id": "first"}, {**case, "id": "second"}]}
    store_suite_runs(folder, "--model", "good", suite=suite, script=_script)
    added = add_suite(url, "default", {**suite, "system_prompt": "planted-prompt"}, now_ns)
    _store_asked(url, added.suite.id, now_ns)
    return rules, added.suite.id, incident.id


def _store_asked(url: str, suite: str, now_ns: int) -> None:
    """What models were asked with: by a job, which failed, and by other tools, as they reported it."""
    models = ["local::good"]
    engine = open_store(url)
    with engine.begin() as connection:
        for name, prompt in ((JOB, "planted-own-prompt"), ("jobs-of-each", {models[0]: "planted-prompt-of-one"})):
            request: Any = {
                **{"suite": suite, "models": models, "temperature": 0.0, "tool_choice": "auto", "repeat": 1},
                "experiment": None,
                "system_prompt": prompt,
            }
            job = Job(tenant="default", id=name, request=request, created_ns=now_ns)
            add_job(connection, job)
            cancel_job(connection, "default", name, now_ns)
            connection.execute(update(jobs).where(jobs.c.id == name).values(message="it answered: planted-error"))
    engine.dispose()
    configuration: Any = {
        "system_prompt": "planted-tuned",
        "models": models,
        "temperature": 0.5,
        "examples": [{"user": "planted-example", "weight": 2}],
    }
    report_entry(url, "default", "prompts", "prompt_tune", 0.9, configuration)


def _traces(now_ns: int) -> Iterator[tuple[Trace, str | None]]:
    for number, age_s in ((TRACE, 400), (OTHER, 390)):
        yield _with_planted(order(number, now_ns - age_s * SECOND, "1.5.0", _BAD, SESSION)), SESSION
    yield (
        _with_planted(refund(FAILED, now_ns - 380 * SECOND, [("issue_refund", {"order_id": "planted-order"}, {})])),
        None,
    )


def _with_planted(trace: Trace) -> Trace:
    """The trace with planted prompts, messages, answers, errors, events, and attributes of spans and of resources."""
    for span in trace.spans:
        if span.attributes.get("gen_ai.operation.name") == "chat":
            image = {"type": "blob", "mime_type": "planted/type", "content": "QUJD"}
            told = [("system", "planted system"), ("user", "planted before"), ("assistant", "planted reply")]
            asked = {"role": "user", "parts": [{"type": "text", "content": "planted question"}, image]}
            span.attributes["gen_ai.input.messages"] = json.dumps([*json.loads(messages(*told)), asked])
            span.attributes["gen_ai.output.messages"] = messages(("assistant", f"planted words {span.span_id.hex()}"))
        for text in _SAID:
            for key, value in span.attributes.items():
                if isinstance(value, str):
                    span.attributes[key] = value.replace(text, f"planted {key}")
        span.status_message = span.status_message and "planted-message"
        span.attributes["user.id"] = "planted-person"
        span.events.append(SpanEvent("exception", span.start_ns, {"exception.message": "planted-exception"}))
        span.resource.attributes["host.name"] = "planted-host"
    return trace


def _script(body: dict[str, Any]) -> Any:
    assert "planted" in prompt_of(body)
    if any(message["role"] == "tool" for message in body["messages"]):
        return saying("planted-answer")
    return calling(("get_weather", {"city": "planted-other", "units": "planted-units"}))
