"""What it costs to look at all alerts once, over a store of many results.

Usage: python tests/system/bench/alert_check.py [--series 100] [--results 1000000] [--url sqlite:///FILE]

Fills ``counts`` as the writer would have, over eight days that end with the current hour almost over (which is the most
rows), with rules that use every kind of alert; then looks again and again, 15 seconds apart, and prints processor time.
"""

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Connection, Engine, insert

from tracegrade.alert.loop import AlertLoop
from tracegrade.alert.settings import AlertsSettings
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store import schema
from tracegrade.store.open import open_store
from tracegrade.telemetry.metrics import Telemetry

RULES = 10
DAYS = 8
EVERY_S = 15
LOOKS = 20
END_MINUTE = 1_767_225_600 // 60 + DAYS * 1440 + 59
PASS, FAIL = 0.95, 0.05
ALERTS: list[dict[str, Any]] = [
    {"below": 0.8, "over": "1h"},
    {"below": 0.8, "of": "tool-call-order.score", "over": "6h"},
    {"drop": {"against": "7d"}},
    {"coverage": {"against": "7d"}, "over": "6h"},
    {"above": 0.2, "of": "error", "over": "1h"},
]


def rules() -> list[Rule]:
    """Rules alike but for their names."""
    evaluate = [{"evaluator": "tool-call-order", "tool_calls_order": ["a", "b"]}]
    return [Rule.model_validate({"id": f"rule-{n}", "evaluate": evaluate, "alert": ALERTS}) for n in range(RULES)]


def fill(engine: Engine, watched: list[Rule], series: int, results: int) -> int:
    """Store `results` outcomes in `series` series of rules, as many of their evaluations, and traces."""
    chance = random.Random(1)
    places = [(watched[n % RULES], f"agent-{n // RULES}") for n in range(series)]
    with engine.begin() as connection:
        add(connection, 0, schema.EVERY_TRACE, "", "", "", Counter(range(first_minute(), END_MINUTE)), Counter())
        for place, (rule, agent) in enumerate(places):
            passed, failed = Counter[int](), Counter[int]()
            for _ in range(results // series):
                counted = passed if chance.random() < PASS else failed
                counted[chance.randrange(first_minute(), END_MINUTE)] += 1
            for which, evaluation in enumerate(("", "tool-call-order")):
                add(connection, 1 + 2 * place + which, rule.id, rule.hash, evaluation, agent, passed, failed)
    return 2 * series * (results // series)


def first_minute() -> int:
    return END_MINUTE - DAYS * 1440


def add(
    connection: Connection,
    number: int,
    rule_id: str,
    rule_hash: str,
    evaluation: str,
    agent: str,
    passed: Counter[int],
    failed: Counter[int],
) -> None:
    """One series, counted by the minute and by the hour."""
    connection.execute(
        insert(schema.series).values(
            number=number,
            key=number.to_bytes(16, "big"),
            tenant="default",
            run="live",
            rule_id=rule_id,
            rule_hash=rule_hash,
            present_hash=rule_hash,
            evaluation=evaluation,
            evaluator="",
            level="high",
            service="shop",
            agent=agent,
            probability=1.0,
        )
    )
    rows = [row for minutes in schema.COUNTED_MINUTES for row in counted(number, minutes, passed, failed)]
    connection.execute(insert(schema.counts), rows)


def counted(number: int, minutes: int, passed: Counter[int], failed: Counter[int]) -> Iterator[dict[str, Any]]:
    """The rows of one series, of so many minutes each."""
    good, bad = Counter[int](), Counter[int]()
    for into, found in ((good, passed), (bad, failed)):
        for minute, count in found.items():
            into[minute - minute % minutes] += count
    for minute in {*good, *bad}:
        yield {
            "series": number,
            "minutes": minutes,
            "minute": minute,
            "complete": True,
            "passed": good[minute],
            "failed": bad[minute],
            "not_evaluable": 0,
            "errors": 0,
            "score_sum": float(good[minute]),
            "score_squares": float(good[minute]),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--results", type=int, default=1_000_000)
    parser.add_argument("--url", help="an empty store; a temporary SQLite file if none")
    chosen = parser.parse_args()
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(tempfile.TemporaryDirectory())
        engine = open_store(chosen.url or f"sqlite:///{Path(folder) / 'tracegrade.db'}")
        cleanup.callback(engine.dispose)
        watched = rules()
        stored = fill(engine, watched, chosen.series, chosen.results)
        telemetry = Telemetry("judge")
        loop = AlertLoop(engine, lambda: RuleSet(watched), [], telemetry, AlertsSettings())
        spent = []
        for look in range(LOOKS):
            before = time.process_time()
            loop.step((END_MINUTE * 60 + look * EVERY_S) * 1_000_000_000)
            spent.append(time.process_time() - before)
        assert telemetry.value("tracegrade.alerts.failed_checks") == 0
        print(f"{stored:,} stored results in {chosen.series} series, {len(ALERTS)} alerts each")
        print(f"a look at all: {1000 * median(spent):.0f} ms of processor time (first {1000 * spent[0]:.0f} ms)")
        print(f"each {EVERY_S} s: {median(spent) / EVERY_S:.2%} of a core")


if __name__ == "__main__":
    main()
