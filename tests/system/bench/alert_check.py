"""What it costs to look at all alerts once, over a store of many results.

Usage: python tests/system/bench/alert_check.py [--series 100] [--results 1000000] [--services 10] [--url sqlite:///FILE]

Fills ``counts`` as the writer would have, over 29 days that end with the current hour almost over (which is the most
rows), with rules that use every kind of alert. Then it looks again and again, 15 seconds apart, and prints processor
time: of the first look, of those between which a part of the series had new results, and of the first in a new hour.
Each trace is judged by all rules of its agent, and counted for its service. Memory is the most that the process had.
"""

import argparse
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, update

from tracegrade.alert.loop import AlertLoop, Recipients
from tracegrade.alert.settings import AlertsSettings
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store import schema
from tracegrade.store.open import open_store
from tracegrade.telemetry.metrics import Telemetry

RULES = 10
DAYS = 29
EVERY_S = 15
LOOKS = 11
WITH_NEW_RESULTS = (0.01, 0.1, 1.0)
END_MINUTE = 1_767_225_600 // 60 + DAYS * 1440 + 50
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


def fill(url: str, series: int, results: int, services: int) -> None:
    """Store `results` outcomes in `series` series of rules, as many of their evaluations, and traces."""
    chance, watched = random.Random(1), rules()
    engine = open_store(url)
    places = [(watched[n % RULES], f"agent-{n // RULES}") for n in range(series)]
    with engine.begin() as connection:
        for service in range(services):
            every_minute = Counter(range(first_minute(), END_MINUTE))
            add(connection, -service, schema.EVERY_TRACE, "", "", f"shop-{service}", "", every_minute, Counter())
        for place, (rule, agent) in enumerate(places):
            service = f"shop-{service_of(place, services)}"
            passed, failed = Counter[int](), Counter[int]()
            for _ in range(results // series):
                counted = passed if chance.random() < PASS else failed
                counted[chance.randrange(first_minute(), END_MINUTE)] += 1
            for which, evaluation in enumerate(("", "tool-call-order")):
                number = 1 + 2 * place + which
                add(connection, number, rule.id, rule.hash, evaluation, service, agent, passed, failed)
    engine.dispose()


def service_of(place: int, services: int) -> int:
    """The service of a series: agents are dealt out to services."""
    return place // RULES % services


def first_minute() -> int:
    return END_MINUTE - DAYS * 1440


def add(
    connection: Connection,
    number: int,
    rule_id: str,
    rule_hash: str,
    evaluation: str,
    service: str,
    agent: str,
    passed: Counter[int],
    failed: Counter[int],
) -> None:
    """One series, counted by the minute and by the hour."""
    connection.execute(
        insert(schema.series).values(
            number=number,
            key=number.to_bytes(16, "big", signed=True),
            tenant="default",
            run="live",
            rule_id=rule_id,
            rule_hash=rule_hash,
            evaluation=evaluation,
            evaluator="",
            level="high",
            service=service,
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


def add_results(engine: Engine, numbers: Sequence[int], minute: int) -> None:
    """One pass in each of the series of these numbers."""
    for minutes in schema.COUNTED_MINUTES:
        place = {"minutes": minutes, "minute": minute - minute % minutes, "complete": True}
        one = {"passed": 1, "failed": 0, "not_evaluable": 0, "errors": 0, "score_sum": 1.0, "score_squares": 1.0}
        table = schema.counts.c
        of_these = (table.series.in_(numbers), *(table[name] == value for name, value in place.items()))
        more = {name: table[name] + value for name, value in one.items()}
        with engine.begin() as connection:
            known = set(connection.scalars(select(table.series).where(*of_these)))
            connection.execute(update(schema.counts).where(*of_these).values(more))
            new = [place | one | {"series": number} for number in numbers if number not in known]
            if new:
                connection.execute(insert(schema.counts), new)


def most_mib() -> float:
    """The most memory that this process had so far; Linux counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--results", type=int, default=1_000_000)
    parser.add_argument("--services", type=int, default=10, help="that the agents belong to")
    parser.add_argument("--url", help="an empty store; a temporary SQLite file if none")
    chosen = parser.parse_args()
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(tempfile.TemporaryDirectory())
        url = chosen.url or f"sqlite:///{Path(folder) / 'tracegrade.db'}"
        # In a process of its own, whose memory is not counted.
        filling = get_context("spawn").Process(target=fill, args=(url, chosen.series, chosen.results, chosen.services))
        filling.start()
        filling.join()
        assert filling.exitcode == 0
        engine, watched = open_store(url), rules()
        cleanup.callback(engine.dispose)
        telemetry = Telemetry("judge")
        loop = AlertLoop(engine, lambda: RuleSet(watched), Recipients([]), telemetry, AlertsSettings())
        now_s = END_MINUTE * 60

        def look() -> float:
            before = time.process_time()
            loop.step(now_s * 1_000_000_000)
            return time.process_time() - before

        stored = 2 * chosen.series * (chosen.results // chosen.series)
        print(
            f"{stored:,} stored results in {chosen.series} series of {chosen.services} services, "
            f"{len(ALERTS)} alerts each; a look at all takes"
        )
        before_mib = most_mib()
        print(f"  the first time: {1000 * look():.0f} ms")
        for part in WITH_NEW_RESULTS:
            spent = []
            for number in range(LOOKS):
                now_s += EVERY_S
                with_new = max(1, round(part * chosen.series))
                places = [(number * with_new + place) % chosen.series for place in range(with_new)]
                of_services = {-service_of(place, chosen.services) for place in places}
                of_rules = [1 + 2 * place + which for place in places for which in range(2)]
                add_results(engine, [*of_services, *of_rules], now_s // 60)
                spent.append(look())
            print(f"  with new results in {part:.0%} of the series: {1000 * median(spent):.0f} ms")
        now_s = (now_s // 3600 + 1) * 3600
        print(f"  in a new hour: {1000 * look():.0f} ms")
        assert telemetry.value("tracegrade.alerts.failed_checks") == 0
        print(f"memory: {most_mib() - before_mib:.0f} MiB more than before the first look")


if __name__ == "__main__":
    main()
