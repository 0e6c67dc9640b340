"""Two services, four agents, three releases, two tenants and five faults: what `tests/web/questions.md` asks about.

The faults: release 1.1 charges every second card before it has held a seat; the card of order 17 is refused and the
customer is told that it was charged; release 1.2 searches flights for nine seconds, and by a dearer model; every tenth
order lacks the arguments of its charge; and the agent `payout` has sent nothing for two hours.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from build import store_with
from build.shop import HOUR, MS, SECOND, Call, Writer, closed, fill, messages
from build.stored_alerts import ALERT, store_incident
from tracegrade.config import Config
from tracegrade.model.span import Resource, Span
from tracegrade.model.trace import Trace
from tracegrade.rule.load import load_rules
from tracegrade.rule.prices import Price, Prices
from tracegrade.store.alerts import Facts
from tracegrade.store.incidents import Notification
from tracegrade.store.open import open_store

RULES = Path(__file__).parents[1] / "web" / "fleet_rules"
PRICES = {"gpt-4o-mini": {"input": 1, "output": 4}, "gpt-4o": {"input": 10, "output": 40}}
OTHER_TENANT = "globex"
SYSTEM = "You book flights. Hold a seat before you charge a card."
ORDERS, CLAIMS = 60, 30
MINUTE = 60 * SECOND
SILENT_NS = 126 * MINUTE  # since the minute after the last claim of `payout`
PAID_OUT = 15


def trace_id(number: int) -> str:
    """The id of the trace of an order, or of claim 100 and so on."""
    return f"a1{number:030x}"


def release_of(order: int) -> str:
    """Twenty orders of each release."""
    return ("1.0", "1.1", "1.2")[(order - 1) // 20]


def prices(*models: str) -> Prices:
    """The prices of these models; of all, where none is named."""
    return Prices({model: Price.model_validate(PRICES[model]) for model in models or PRICES})


def fleet(folder: Path, now_ns: int) -> Config:
    """Judge and store all of it. Returns the settings under which it is shown."""
    rules = fill(folder, _traffic(now_ns), load_rules([str(RULES)]), cost_of=prices())
    rule = rules.rule("claim-answered")
    assert rule is not None
    told = {"pager": Notification("firing", now_ns - 80 * MINUTE), "chat": Notification("", 0, 3, "answered 503")}
    silent = replace(
        ALERT, starts_ns=now_ns - 90 * MINUTE, rule_id=rule.id, service="claims-bot", level="medium", title=rule.title,
        kind="silent", bound=1800.0, over_s=86_400.0, of="pass_rate", value=SILENT_NS / SECOND, samples=PAID_OUT,
        agent="payout", rule_hash=rule.hash, release=None, facts=Facts(since_ns=now_ns - SILENT_NS), updated_ns=now_ns,
    )  # fmt: skip
    engine = open_store(store_with(folder))
    with engine.begin() as connection:
        store_incident(connection, silent, notified=told)
    engine.dispose()
    return Config.model_validate({"data_dir": str(folder), "traces": {"prices": PRICES}})


def fleet_order(order: int) -> Trace:
    """The trace of one order."""
    return _order(order, SECOND, release_of(order))


def _traffic(now_ns: int) -> Iterator[tuple[Trace, str | None]]:
    for order in range(1, ORDERS + 1):
        yield _order(order, now_ns - (ORDERS + 1 - order) * 4 * MINUTE, release_of(order)), f"trip-{(order - 1) // 5}"
    for claim in range(CLAIMS):
        for place, agent in enumerate(("intake", "payout")):
            at_ns = now_ns - (CLAIMS - claim) * 8 * MINUTE + place * MINUTE
            if agent == "intake" or at_ns < now_ns - 2 * HOUR:
                yield _claim(100 + 2 * claim + place, at_ns, agent), None
    for order in range(17, 20):
        yield _order(order, now_ns - order * MINUTE, "1.0", OTHER_TENANT), f"trip-{(order - 1) // 5}"


def _order(order: int, at_ns: int, release: str, tenant: str = "default") -> Trace:
    resource = Resource({"service.name": "travel-bot", "service.version": release})
    writer = Writer(order if tenant == "default" else 1000 + order, at_ns, resource, tenant)
    session, price = f"trip-{(order - 1) // 5}", 100 + order
    model, wait_ns = ("gpt-4o", 9 * SECOND) if release == "1.2" else ("gpt-4o-mini", 400 * MS)
    refused = order == 17 and tenant == "default"
    prompt = f"Book order {order}: to Oslo, window seat, for {tenant}."
    answer = f"Order {order} is booked and paid. Have a good flight!"
    router = writer.agent("router", prompt, answer, session)
    writer.model(router, 200 * MS, model, **_said([("user", prompt)], "", 300, 20))
    writer.tool(router, ("transfer_to_booking", {"order": order}, {"ok": True}), 20 * MS)
    booking = writer.agent("booking", prompt, answer, session, router.span_id)
    history = [("system", SYSTEM), ("user", prompt)]
    calls: list[Call] = [
        ("search_flights", {"to": "Oslo"}, {"flight": f"SK{order}", "price": price}),
        ("hold_seat", {"flight": f"SK{order}", "seat": "14A"}, {"held": True}),
        ("charge_card", {} if order % 10 == 0 else {"amount": price, "order": order}, {"status": "paid"}),
    ]
    if release == "1.1" and order % 2 == 0:
        del calls[1]
    for place, call in enumerate(calls):
        writer.model(booking, 300 * MS, model, **_said(history, f"Step {place + 1}.", 1000, 50))
        history += [("assistant", f"Step {place + 1}."), ("user", f"Go on with order {order}, step {place + 2}.")]
        if call[0] == "charge_card" and refused:
            writer.tool(booking, call, 150 * MS, "the card expired in 10/26", "CardExpired")
        else:
            writer.tool(booking, call, wait_ns if call[0] == "search_flights" else 120 * MS)
    writer.model(booking, 400 * MS, model, **_said(history, answer, 1200, 80))
    writer.done(booking, router)
    return closed(writer)


def _claim(number: int, at_ns: int, agent: str) -> Trace:
    writer = Writer(number, at_ns, Resource({"service.name": "claims-bot", "service.version": "1.0"}))
    prompt = f"Where is claim {number}?"
    run: Span = writer.agent(agent, prompt, f"Claim {number} is in progress.", None)
    writer.model(run, 250 * MS, "gpt-4o-mini", **_said([("user", prompt)], "", 200, 10))
    writer.tool(run, ("look_up_claim", {"claim": number}, {"state": "open"}), 80 * MS)
    writer.done(run)
    return closed(writer)


def _said(history: list[tuple[str, str]], answer: str, taken_in: int, given_out: int) -> dict[str, Any]:
    """The attributes of a model call: all messages so far, its answer and its tokens."""
    said: dict[str, Any] = {
        "gen_ai.input.messages": messages(*history),
        "gen_ai.usage.input_tokens": taken_in,
        "gen_ai.usage.output_tokens": given_out,
    }
    return said | ({"gen_ai.output.messages": messages(("assistant", answer))} if answer else {})
