"""What 10, 100 and 1,000 million spans a minute need, from what one unit of work costs; and how uneven it falls.

    python tests/system/bench/scale.py [--set NAME=VALUE ...] [TABLE ...]        TABLEs: all of them if none

    costs workers needs mixes money network skew keys limits

The costs, the workload, the limits and the prices are in `unit_costs.yaml` beside this file; --set takes another value
for one run: `--set core_hour=0.02 --set judge_us_span=30`. docs/internals/scale.md quotes these tables, and
`.ci/generated --check` compares.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.extend(map(str, Path(__file__).parents[1:2]))

from bench import skew  # importable by the line above

UNIT_COSTS = Path(__file__).parent / "unit_costs.yaml"
SIZES = (10_000_000, 100_000_000, 1_000_000_000)  # spans a minute
DAY_S, MONTH_S = 86_400, 365 * 86_400 / 12
EVERYTHING = "everything judged"
TENANTS, SERVICES = 1000, 500
_COPIES = "Kafka's copies"


@dataclass(frozen=True)
class Plan:
    """The numbers of `unit_costs.yaml` by their names, and what a mix of traffic needs of each thing."""

    given: Mapping[str, Any]
    value: Mapping[str, float]

    @classmethod
    def read(cls, changed: Mapping[str, float] | None = None) -> "Plan":
        """From the file, with some values changed."""
        given = yaml.safe_load(UNIT_COSTS.read_text(encoding="utf-8"))
        value = {
            name: entry["value"]
            for section in ("costs", "workload", "limits", "prices")
            for name, entry in given[section].items()
        }
        return cls(given, value | dict(changed or {}))

    def needs(self, spans_a_minute: float, mix: Mapping[str, Any]) -> "Needs":
        """What so many spans need, a share of which is named by rules and a sample of that judged."""
        v, spans_s = {**self.value, **mix.get("with", {})}, spans_a_minute / 60
        judged = mix["named"] * mix["sample"]
        parquet_rows = judged * (v["evaluations_trace"] + v["calls_trace"]) / v["spans_trace"]  # a span
        judge_us = (
            judged * v["judge_us_span"]
            + parquet_rows * v["parquet_us_row"]
            + (mix["named"] - judged) * v["sampled_out_us_span"]
            + (1 - mix["named"]) * v["not_named_us_span"]
            + v["kafka_consume_us_record"] / v["spans_record"]
        )
        receive_us = (
            v["receive_us_span"]
            + v["gzip_us_span"]
            + v["kafka_split_us_span"]
            + v["kafka_produce_us_record"] / v["spans_record"]
        )
        busiest = v["peak"] / v["busy"] / 1e6  # cores for each µs a second
        judges = math.ceil(spans_s * judge_us * busiest)
        wire = spans_s * v["wire_bytes_span"]
        packed, gzipped = wire * v["wire_compressed"], wire * v["wire_gzipped"]
        traces_s = spans_s / v["spans_trace"]
        row_bytes = (
            v["spans_trace"] * v["wire_bytes_span"] * v["store_spans_compressed"]
            + judged * v["store_bytes_trace"]
            + (1 - judged) * v["store_bytes_not_judged"]
        )
        sent = traces_s * judged * v["sent_bytes_trace"]
        store_tb = traces_s * row_bytes * DAY_S * v["store_days"] / 1e12
        partitions = max(judges * v["partitions_judge"], wire * v["peak"] / 1e6 / v["partition_mb_s"])
        return Needs(
            spans_s=spans_s,
            traces_s=traces_s,
            judged=judged,
            judge_us=judge_us,
            wire_mb_s=wire / 1e6,
            receivers=math.ceil(spans_s * receive_us * busiest),
            judges=judges,
            open_gb=spans_s * v["peak"] * v["open_s"] * v["memory_bytes_span"] / 1e9,
            partitions=math.ceil(partitions),
            brokers=max(3, math.ceil(packed * v["peak"] * v["replicas"] / 1e6 / v["broker_mb_s"])),
            kafka_tb=packed * v["replicas"] * DAY_S * v["kafka_days"] / 1e12,
            stores_by_writing=math.ceil(traces_s * v["peak"] / v["postgresql_traces_s"]),
            stores_by_size=math.ceil(store_tb / v["store_tb"]),
            store_cores=math.ceil(traces_s * v["postgresql_us_trace"] * busiest),
            store_tb=store_tb,
            parquet_tb=spans_s * parquet_rows * v["parquet_bytes_row"] * DAY_S * v["parquet_days"] / 1e12,
            moved_mb_s={
                "agents to receivers, gzip": gzipped / 1e6,
                "receivers to Kafka, lz4": packed / 1e6,
                _COPIES: packed * (v["replicas"] - 1) / 1e6,
                "Kafka to judges": packed / 1e6,
                "originals sent on, gzip": gzipped / 1e6,
                "results sent on, gzip": sent * v["wire_gzipped"] / 1e6,
                "rows to PostgreSQL": traces_s * row_bytes / 1e6,
            },
        )

    def money(self, needs: "Needs") -> dict[str, float]:
        """$ a month by what it is spent for."""
        v = self.value
        core = v["core_hour"] * MONTH_S / 3600
        return {
            "receivers": needs.receivers * core,
            "Kafka: brokers": needs.brokers * v["broker_cores"] * core,
            "Kafka: disks": needs.kafka_tb * 1000 * v["disk_gb_month"],
            "judges": needs.judges * core,
            "stores: processors": needs.store_cores * core,
            "stores: disks": needs.store_tb * 1000 * v["disk_gb_month"],
            "Parquet": needs.parquet_tb * 1000 * v["object_gb_month"],
            "network between zones": sum(map(self.crossing, needs.moved_mb_s.items())) / 1000 * MONTH_S * v["zone_gb"],
        }

    def a_span(self, mix: Mapping[str, Any]) -> float:
        """$ that one span costs."""
        return sum(self.money(self.needs(SIZES[1], mix)).values()) * 12 / (SIZES[1] * 60 * 24 * 365)

    def crossing(self, moved: tuple[str, float]) -> float:
        """What of a transfer, with its name, goes from one zone to another."""
        name, mb_s = moved
        return mb_s if name == _COPIES else mb_s * self.value["crosses"]


@dataclass(frozen=True)
class Needs:
    """What one size and mix needs: means a second, and processors for the busiest hour."""

    spans_s: float
    traces_s: float
    judged: float
    judge_us: float
    wire_mb_s: float
    receivers: int
    judges: int
    open_gb: float
    partitions: int
    brokers: int
    kafka_tb: float
    stores_by_writing: int
    stores_by_size: int
    store_cores: int
    store_tb: float
    parquet_tb: float
    moved_mb_s: Mapping[str, float]


def costs(plan: Plan) -> list[str]:
    """Every number that goes in, with how it is known."""
    rows = []
    for section in ("costs", "workload", "limits", "prices"):
        for name, entry in plan.given[section].items():
            value = f"{plan.value[name]:,g}" if plan.value[name] < 1e5 else f"{plan.value[name]:,.0f}"
            known = entry.get("status", "assumed")
            if by := entry.get("by"):
                known = f"{known}: `{by}`"
            rows.append((f"`{name}`", entry["says"], f"{value} {entry.get('unit', '')}".strip(), known))
    return _table(("name", "what", "value", "known how"), rows)


def workers(plan: Plan) -> list[str]:
    """What several workers over one journal on one machine take, beside the one process that delivers."""
    v = plan.value
    judge_us = v["judge_us_span"] - v["deliver_us_span"]
    delivered = 1e6 / v["deliver_us_span"]
    rows = []
    for count in (1, 2, 4, 8, 16, 32):
        judged = count * 1e6 / (judge_us + (count - 1) * v["worker_waste_us_span"])
        spans_s = min(judged, delivered) if count > 1 else 1e6 / v["judge_us_span"]  # one alone delivers, too
        hottest, _ = skew.hottest_partition(count, spans_s * v["busy"] / count, 10)
        minute = f"{spans_s * v['busy'] / v['peak'] * 60 / 1e6:,.1f} million"
        ends = "delivery" if count > 1 and judged > delivered else "judging"
        rows.append((str(count), f"{judged:,.0f}", f"{spans_s:,.0f}", ends, f"{hottest:.2f}", minute))
    return _table(
        (
            "workers",
            "judged, spans a second at most",
            "and delivered",
            "ended by",
            "busiest worker in 10 s, of the mean",
            "spans a minute, with room for the peak",
        ),
        rows,
    )


def needs(plan: Plan) -> list[str]:
    """What is needed when everything is judged, by size."""
    found = [plan.needs(size, plan.given["mixes"][EVERYTHING]) for size in SIZES]
    lines: list[tuple[str, Callable[[Needs], str]]] = [
        ("spans a second, mean", lambda n: f"{n.spans_s:,.0f}"),
        ("traces a second, mean", lambda n: f"{n.traces_s:,.0f}"),
        ("evaluations a second, mean", lambda n: f"{n.traces_s * plan.value['evaluations_trace']:,.0f}"),
        ("spans, MB a second, mean", lambda n: f"{n.wire_mb_s:,.0f}"),
        ("receivers, cores", lambda n: f"{n.receivers:,}"),
        ("judges, cores", lambda n: f"{n.judges:,}"),
        ("open traces in the judges' memory, GB", lambda n: f"{n.open_gb:,.0f}"),
        ("Kafka: partitions of each topic", lambda n: f"{n.partitions:,}"),
        ("Kafka: brokers", lambda n: f"{n.brokers:,}"),
        ("Kafka: disk, TB", lambda n: f"{n.kafka_tb:,.0f}"),
        ("PostgreSQL: servers for the rows of the peak", lambda n: f"{n.stores_by_writing:,}"),
        (f"PostgreSQL: servers for {plan.value['store_days']:g} days of traces", lambda n: f"{n.stores_by_size:,}"),
        ("PostgreSQL: disk, TB", lambda n: f"{n.store_tb:,.0f}"),
        (
            f"Parquet: {plan.value['parquet_days']:g} days of evaluations and calls, TB",
            lambda n: f"{n.parquet_tb:,.0f}",
        ),
        ("network, in all, MB a second, mean", lambda n: f"{sum(n.moved_mb_s.values()):,.0f}"),
    ]
    return _table(("", *_sizes()), [(name, *map(cell, found)) for name, cell in lines])


def mixes(plan: Plan) -> list[str]:
    """What not judging everything changes: cores by size, and what a million spans cost."""
    one_zone = Plan(plan.given, {**plan.value, "crosses": 0.0, "replicas": 1.0})
    rows = []
    for name, mix in plan.given["mixes"].items():
        found = [plan.needs(size, mix) for size in SIZES]
        million = (f"${1e6 * one.a_span(mix):.4f}" for one in (plan, one_zone))
        cells = (f"{found[0].judged:.2%}", f"{found[0].judge_us:.1f}", *(f"{n.judges:,}" for n in found), *million)
        rows.append((name, *cells))
    judges = (f"judges, {size}" for size in _sizes())
    head = ("traffic", "judged", "µs of judging a span", *judges, "a million spans, three zones", "one zone, one copy")
    return _table(head, rows)


def money(plan: Plan) -> list[str]:
    """Where the money goes, for everything judged and for a part."""
    chosen = list(plan.given["mixes"].items())
    spent = [plan.money(plan.needs(SIZES[1], mix)) for _, mix in chosen]
    rows = [(item, *(_dollars(one[item]) for one in spent)) for item in spent[0]]
    rows.append(("in all", *(_dollars(sum(one.values())) for one in spent)))
    return _table((f"a month, at {_sizes()[1]} spans a minute", *(name for name, _ in chosen)), rows)


def network(plan: Plan) -> list[str]:
    """What goes over the network, by where it goes."""
    found = [plan.needs(size, plan.given["mixes"][EVERYTHING]) for size in SIZES]
    month = MONTH_S / 1000 * plan.value["zone_gb"]
    rows = [
        (name, *(f"{n.moved_mb_s[name]:,.0f}" for n in found), _dollars(plan.crossing((name, mb_s)) * month))
        for name, mb_s in found[1].moved_mb_s.items()
    ]
    head = ("MB a second, mean", *_sizes(), f"between zones, a month, {_sizes()[1]}")
    return _table(head, rows)


def skewed(plan: Plan) -> list[str]:
    """The hottest partition when traces are spread by their id, and how far it falls behind."""
    v, rows = plan.value, []
    for size in SIZES:
        found = plan.needs(size, plan.given["mixes"][EVERYTHING])
        each = found.spans_s * v["peak"] / found.partitions
        for window in (1, 10, 60):
            times, largest = skew.hottest_partition(found.partitions, each, window)
            # A judge has several partitions, but the hottest one alone may use all of its core.
            behind = max(0.0, times * each * window * v["judge_us_span"] / 1e6 - window)
            rows.append(
                (
                    _size(size),
                    f"{found.partitions:,}",
                    f"{window} s",
                    f"{times:.2f}",
                    f"{largest:,.0f}",
                    f"{behind:.1f} s",
                )
            )
    head = ("spans a minute", "partitions", "window", "hottest, of the mean", "largest trace, spans", "behind after it")
    return _table(head, rows)


def keys(plan: Plan) -> list[str]:
    """What the hottest place gets by what spans are spread by."""
    tenants, services = skew.zipf(TENANTS), skew.zipf(SERVICES)
    rows = []
    for places in (2, 4, 8, 16, 64, 512):
        rows.append(
            (
                str(places),
                f"{skew.hottest_worker(places):.2f}",
                f"{skew.hottest_by_key('service', services, places):.1f}",
                f"{skew.hottest_by_key('tenant', tenants, places):.1f}",
                f"{skew.hottest_packed(tenants, places):.1f}",
            )
        )
    head = (
        "places",
        "by trace id (20,000 traces)",
        f"by service (Zipf, {SERVICES})",
        f"by tenant (Zipf, {TENANTS:,})",
        "by tenant, largest first to the emptiest",
    )
    return _table(head, rows)


def limits(plan: Plan) -> list[str]:
    """What cannot be spread, as multiples of what one of it does; that which ends first is first."""
    v = plan.value
    first = plan.needs(SIZES[0], plan.given["mixes"][EVERYTHING]).partitions
    largest_tenant = skew.zipf(TENANTS)[0]

    def of(size: int) -> dict[str, float]:
        n = plan.needs(size, plan.given["mixes"][EVERYTHING])
        series = size / v["spans_a_series"]
        rows = n.traces_s * v["peak"] / v["postgresql_traces_s"]
        return {
            "one machine delivers what its workers judge": n.spans_s
            * v["deliver_us_span"]
            * v["peak"]
            / v["busy"]
            / 1e6,
            "one PostgreSQL takes the rows of the peak": rows,
            f"one PostgreSQL holds {v['store_days']:g} days of traces": n.store_tb / v["store_tb"],
            f"the largest of {TENANTS:,} tenants has a PostgreSQL for itself": rows * largest_tenant,
            "one process looks at all alerts in time": series * v["alert_us_series"] / 1e6 / v["look_every_s"],
            "metrics name all series (by default)": series * v["series_an_evaluation"] / v["metric_series"],
            "one consumer group has all judges": n.judges / v["group_members"],
            f"the partitions for {_size(SIZES[0])} are enough": n.partitions / first,
        }

    found = [of(size) for size in SIZES]
    by_end = sorted(found[0], key=lambda name: -found[0][name])
    rows = [
        (
            name,
            _size(SIZES[0] / found[0][name]),
            *(f"**{one[name]:,.1f}**" if one[name] > 1 else f"{one[name]:.2f}" for one in found),
        )
        for name in by_end
    ]
    return _table(("that", "ends at, spans a minute", *_sizes()), rows)


def _dollars(amount: float) -> str:
    return f"${amount:,.0f}" if amount < 10_000 else f"${round(amount, -3):,.0f}"


def _size(spans: float) -> str:
    millions = spans / 1e6
    return f"{millions:,.0f} million" if millions >= 10 else f"{millions:.1f} million"


def _sizes() -> list[str]:
    return [_size(size) for size in SIZES]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """As Markdown."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


TABLES: dict[str, Callable[[Plan], list[str]]] = {
    "costs": costs,
    "workers": workers,
    "needs": needs,
    "mixes": mixes,
    "money": money,
    "network": network,
    "skew": skewed,
    "keys": keys,
    "limits": limits,
}


def main() -> None:
    """Print the chosen tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=" ".join(TABLES))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another value of the file's")
    options = parser.parse_args()
    if unknown := set(options.tables) - TABLES.keys():
        parser.error(f"no table {', '.join(sorted(unknown))}; expected {', '.join(TABLES)}")
    plan = Plan.read(_changed(parser, options.set))
    for name in options.tables or TABLES:
        print(*TABLES[name](plan), "", sep="\n")


def _changed(parser: argparse.ArgumentParser, given: Sequence[str]) -> dict[str, float]:
    """The values of --set by name."""
    known = Plan.read().value
    changed = {}
    for one in given:
        name, _, value = one.partition("=")
        if name not in known:
            parser.error(f"--set {one}: no '{name}' in {UNIT_COSTS.name}; expected one of {', '.join(known)}")
        try:
            changed[name] = float(value)
        except ValueError:
            parser.error(f"--set {one}: '{value}' is no number")
    return changed


if __name__ == "__main__":
    main()
