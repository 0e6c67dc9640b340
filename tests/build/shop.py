"""The traffic of a made-up shop, judged by the rules of `tests/web/rules`: what the page is tested and looked at with.

The same seed gives the same traffic. From release 1.5.0 on, the order agent creates some orders before it has checked
the stock.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from build import store_with
from build.stored_alerts import store_incident
from tracegrade.document.yaml_text import dumped
from tracegrade.extract.session import joined, part_of
from tracegrade.judge import judge, judge_session
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session
from tracegrade.model.span import Resource, Span
from tracegrade.model.trace import Trace
from tracegrade.model.trace_result import TraceResult
from tracegrade.model.usage import CostOf, no_prices
from tracegrade.pipeline.trace_result import session_result, trace_result
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import Facts, StoredAlert
from tracegrade.store.incidents import Notification
from tracegrade.store.open import open_store
from tracegrade.store.rule_texts import save_rule_texts
from tracegrade.store.schema import rule_texts
from tracegrade.store.write import StoreWriter

RULES = Path(__file__).parents[1] / "web" / "rules"
MS = 1_000_000
SECOND = 1000 * MS
HOUR = 3600 * SECOND

Call = tuple[str, dict[str, Any], Any]


@dataclass
class Writer:
    """Spans of one trace, written as an instrumented agent would."""

    number: int
    start_ns: int
    resource: Resource
    tenant: str = "default"
    spans: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trace_id = (0xA1 << 120 | self.number).to_bytes(16, "big")
        self.now_ns = self.start_ns

    def span(self, name: str, parent: bytes, took_ns: int, error: str = "", **attributes: Any) -> Span:
        made = Span(
            self.trace_id, (len(self.spans) + 1 + (self.number << 20)).to_bytes(8, "big"), parent, name, 1, self.now_ns,
            self.now_ns + took_ns, 0, 2 if error else 0, error, attributes, [], 0, "shop-agents", self.resource,
        )  # fmt: skip
        self.spans.append(made)
        return made

    def agent(self, name: str, prompt: str, answer: str, session: str | None, parent: bytes = b"") -> Span:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.input.messages": messages(("user", prompt)),
            "gen_ai.output.messages": messages(("assistant", answer)),
        }
        if session is not None:
            attributes["gen_ai.conversation.id"] = session
        return self.span(f"invoke_agent {name}", parent, 0, **attributes)

    def model(self, agent: Span, took_ns: int, model: str = "gpt-4o", **attributes: Any) -> None:
        said = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, **attributes}
        self.span(f"chat {model}", agent.span_id, took_ns, **said)
        self.now_ns += took_ns + MS

    def tool(self, agent: Span, call: Call, took_ns: int, error: str = "", error_type: str = "TimeoutError") -> Span:
        name, arguments, output = call
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        if arguments:
            attributes["gen_ai.tool.call.arguments"] = json.dumps(arguments)
        if not error:
            attributes["gen_ai.tool.call.result"] = json.dumps(output)
        else:
            attributes["error.type"] = error_type
        span = self.span(f"execute_tool {name}", agent.span_id, took_ns, error, **attributes)
        self.now_ns += took_ns + MS
        return span

    def done(self, *agents: Span) -> None:
        for agent in agents:
            agent.end_ns = self.now_ns


def messages(*said: tuple[str, str]) -> str:
    """Messages of these roles and texts, as spans hold them."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said])


_VALIDATE: Call = ("validate_user", {"user_id": 123}, {"valid": True})
_CHECK: Call = ("check_inventory", {"sku": "A-1", "qty": 2}, {"available": True, "price": 19.9})
_ORDER: dict[str, Any] = {
    "user_id": 123,
    "sku": "A-1",
    "qty": 2,
    "price": 19.9,
    "ship": {"country": "DE", "express": False},
}
_CONFIRMED = {"status": "ok", "order_id": "ORD-4711"}
_CREATE: Call = ("create_order", _ORDER, _CONFIRMED)
_CREATE_FIVE: Call = ("create_order", {**_ORDER, "qty": 5, "price": 24.5, "ship": {"country": "US"}}, _CONFIRMED)
_LOOKUP: Call = ("lookup_order", {"order_id": "ORD-4711"}, {"total": 39.8})
_REFUND: Call = ("issue_refund", {"order_id": "ORD-4711", "amount": 39.8}, {"status": "ok"})

REFUNDED = [_LOOKUP, _REFUND]
GOOD, WRONG_ORDER, WRONG_QUANTITY, UNFINISHED = (
    [_VALIDATE, _CHECK, _CREATE],
    [_CREATE, _VALIDATE, _CHECK],
    [_VALIDATE, _CHECK, ("notify_sales", {"channel": "#orders"}, {"ok": True}), _CREATE_FIVE],
    [_VALIDATE, _CHECK],
)


def order(number: int, at_ns: int, release: str, calls: list[Call], session: str | None = None) -> Trace:
    """One run of the order agent."""
    writer = Writer(number, at_ns, Resource({"service.name": "shop", "service.version": release}))
    agent = writer.agent("order-agent", "Please order 2 of A-1 for user 123.", "Done: ORD-4711.", session)
    for call in calls:
        writer.model(agent, 420 * MS)
        writer.tool(agent, call, (60 + 13 * len(call[0])) * MS)
    writer.model(agent, 510 * MS)
    writer.done(agent)
    return closed(writer)


def refund(number: int, at_ns: int, calls: list[Call]) -> Trace:
    """A support agent that hands over to the refund agent, in one trace."""
    writer = Writer(number, at_ns, Resource({"service.name": "support", "service.version": "2.1"}))
    desk = writer.agent("support-desk", "I want my money back.", "You will have it tomorrow.", None)
    writer.model(desk, 300 * MS)
    writer.tool(desk, ("search_faq", {"query": "refund"}, None), 1200 * MS, error="no answer within 1.2 s")
    agent = writer.agent("refund-agent", "Refund ORD-4711.", "Refunded.", None, desk.span_id)
    for call in calls:
        writer.model(agent, 250 * MS)
        writer.tool(agent, call, 140 * MS)
    writer.done(agent, desk)
    return closed(writer)


def search(number: int, at_ns: int, city: str, asked: str) -> Trace:
    """A question, and the city that the agent looked up."""
    writer = Writer(number, at_ns, Resource({"service.name": "search"}))
    agent = writer.agent("search-agent", f"What's the weather in {asked}?", "Sunny.", None)
    writer.model(agent, 200 * MS)
    writer.tool(agent, ("get_weather", {"city": city}, {"sky": "clear"}), 90 * MS)
    writer.done(agent)
    return closed(writer)


def crawl(number: int, at_ns: int, calls: int) -> Trace:
    """A run that goes on and on."""
    writer = Writer(number, at_ns, Resource({"service.name": "catalogue", "service.version": "0.9"}))
    agent = writer.agent("crawler", "Read every page of the catalogue.", "Read.", None)
    for page in range(calls):
        if page % 10 == 0:
            writer.model(agent, 300 * MS)
        writer.tool(
            agent, ("read_page", {"url": f"https://shop.example/catalogue/{page}"}, {"title": f"Page {page}"}), 40 * MS
        )
    writer.done(agent)
    return closed(writer)


def without_root(number: int, at_ns: int) -> Trace:
    """A trace of which the root never came."""
    made = order(number, at_ns, "1.5.0", GOOD)
    root = made.spans.pop(0)
    made.close_reason, made.missing = "idle", ["root", f"parent:{root.span_id.hex()}"]
    return made


def closed(writer: Writer) -> Trace:
    """The trace of what was written, complete."""
    spans = sorted(writer.spans, key=lambda span: (span.start_ns, span.end_ns, span.span_id))
    received = max(span.end_ns for span in spans) + 50 * MS
    return Trace(
        writer.trace_id, writer.tenant, spans, "settled", [], len(spans), first_received_ns=writer.start_ns + SECOND,
        last_received_ns=received, closed_ns=received + 2 * SECOND,
    )  # fmt: skip


def traffic(count: int, now_ns: int, hours: float, seed: int = 1) -> Iterator[tuple[Trace, str | None]]:
    """`count` traces spread over the `hours` before `now_ns`, each with the session it is part of; no times repeat."""
    chance = random.Random(seed)
    for number in range(1, count + 1):
        at_ns = now_ns - round(hours * HOUR * (1 - (number - 1) / count)) - 10 * SECOND
        kind = chance.random()
        if number % 397 == 5:
            yield without_root(number, at_ns), None
        elif kind < 0.55:
            release = "1.5.0" if number > 0.7 * count else "1.4.2"
            drawn, worse = chance.random(), release == "1.5.0"
            calls = GOOD
            if drawn < (0.2 if worse else 0.015):
                calls = WRONG_ORDER
            elif drawn < (0.24 if worse else 0.03):
                calls = WRONG_QUANTITY
            elif drawn < (0.26 if worse else 0.04):
                calls = UNFINISHED
            session = f"conversation-{number // 150}" if kind < 0.05 else None
            yield order(number, at_ns, release, calls, session), session
        elif kind < 0.75:
            calls = [_REFUND] if chance.random() < 0.06 else REFUNDED
            yield refund(number, at_ns, calls), None
        elif kind < 0.95:
            asked = chance.choice(["Paris", "Rome"])
            yield search(number, at_ns, asked if chance.random() < 0.9 else "London", asked), None
        else:
            yield crawl(number, at_ns, chance.choice([4, 9, 18, 31])), None


def fill(
    folder: Path,
    traces: Iterator[tuple[Trace, str | None]],
    rules: RuleSet | None = None,
    run: str = "live",
    cost_of: CostOf = no_prices,
) -> RuleSet:
    """Judge `traces` and their sessions and store what came of it in the store of `folder`; the rules they met."""
    rule_set = rules or load_rules([str(RULES)])
    engine = open_store(store_with(folder))
    writer = StoreWriter(engine)
    sessions: dict[tuple[str, str], list[Extraction]] = {}
    batch: list[TraceResult] = []
    first_ns = 0
    for trace, session in traces:
        first_ns = first_ns or trace.first_received_ns
        trace.rule_set = rule_set.hash
        judgement = judge(trace, rule_set, cost_of=cost_of)
        batch.append(trace_result(trace, judgement, run, "settings"))
        if session is not None:
            sessions.setdefault((trace.tenant, session), []).append(judgement.extraction)
        if len(batch) >= 500:
            writer.write(batch)
            batch = []
    batch += [_session(tenant, name, parts, rule_set, run) for (tenant, name), parts in sessions.items()]
    writer.write(batch)
    with engine.begin() as connection:
        save_rule_texts(connection, rule_set, first_ns)
    engine.dispose()
    return rule_set


def _session(tenant: str, name: str, extractions: list[Extraction], rule_set: RuleSet, run: str) -> TraceResult:
    parts = [part for extraction in extractions if (part := part_of(extraction, name)) is not None]
    ordered, calls = joined(parts)
    members = {extraction.trace.trace_id: extraction.trace.revision for extraction in extractions}
    last = max(extraction.trace.closed_ns for extraction in extractions)
    first = min(extraction.trace.first_received_ns for extraction in extractions)
    session = Session(
        name, tenant, ordered, calls, members, close_reason="quiet", missing=[], rule_set=rule_set.hash,
        first_received_ns=first, closed_ns=last,
    )  # fmt: skip
    return session_result(session, judge_session(session, rule_set), run, "settings")


def fire(folder: Path, rule_set: RuleSet, now_ns: int, worst: list[str]) -> None:
    """Store an alert that fires, one that was resolved, and what the rule said a week ago."""
    rule = rule_set.rule("order-steps-out-of-order")
    assert rule is not None
    facts = Facts(low=0.744, high=0.861, was=0.985, was_samples=912, since_ns=now_ns - 5 * HOUR, worst=worst)
    told = {"pager": Notification("firing", now_ns - 4 * HOUR), "slack": Notification("", 0, 3, "answered 503")}
    firing = StoredAlert(
        "ab" * 16, now_ns - 4 * HOUR, None, "firing", "default", rule.id, "shop", "high", rule.title, "pass_rate", 0.95,
        3600.0, 0.81, 142, now_ns, rule_hash=rule.hash, agent="order-agent", release="1.5.0", facts=facts,
    )  # fmt: skip
    resolved = replace(
        firing, fingerprint="cd" * 16, starts_ns=now_ns - 12 * HOUR, ends_ns=now_ns - 11 * HOUR, state="resolved",
        release="1.4.2", value=0.97, facts=replace(facts, was=None, ended_by="it passes again"),
    )  # fmt: skip
    old = Rule.model_validate({**rule.written, "level": "medium", "false_positives": []})
    engine = open_store(store_with(folder))
    with engine.begin() as connection:
        store_incident(connection, firing, notified=told)
        store_incident(connection, resolved)
        row = {"rule_id": old.id, "since_ns": now_ns - 168 * HOUR, "text_hash": old.text_hash, "rule_hash": old.hash}
        connection.execute(insert(rule_texts).values(**row, text=dumped(old.written)))
    engine.dispose()
