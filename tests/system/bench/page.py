"""How long the server takes over each view of the page, over a store with many results.

    python tests/system/bench/page.py --evaluations 1000000 [--data-dir FOLDER]
    python tests/system/bench/page.py --url URL

Makes the store with the traffic that the page is tested with (build/shop.py), judged by its rules and all that are
ready-made, spread over 30 days, unless FOLDER holds one. URL, as `store.url` has it, is of a store that
growth_postgresql.py has filled; views of what it lacks, sessions and incidents, are left out then. Prints for each
address the median and the slowest of the calls, from the request to the last byte, the mean CPU time of one, and the
answer's size.
"""

import argparse
import gc
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from sqlalchemy import text

from build.shop import RULES, SECOND, crawl, fill, traffic
from build.shop_incidents import fall, store
from build.site import Site, serving
from tracegrade.config import Config
from tracegrade.model.trace import Trace
from tracegrade.rule.load import load_rules
from tracegrade.store.open import reading_store

_HOURS = 30 * 24.0
_LONG = 999_999_999  # the number of a trace with a thousand calls
_A_TIME = 20_000


def main() -> None:
    """Make the store if there is none, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--url")
    parser.add_argument("--calls", type=int, default=7, help="to each address")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data_dir or Path(temporary)
        config = Config.model_validate({"data_dir": str(folder), "store": {"url": options.url or ""}})
        if options.url is None and not (folder / "tracegrade.db").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _make(folder, options.evaluations)
        with serving(folder, str(RULES), *_others(), config=config) as site:
            _measure(site, config.store_url, options.calls)


def _make(folder: Path, evaluations: int) -> None:
    rules = load_rules([str(RULES), *_others()])
    now_ns = time.time_ns()
    sample = folder / "sample"
    sample.mkdir()
    fill(sample, traffic(500, now_ns, 1.0), rules)
    traces = round(500 * evaluations / _stored(sample))
    begun = time.monotonic()

    def both() -> Iterator[tuple[Trace, str | None]]:
        yield from traffic(traces, now_ns - 60 * SECOND, _HOURS)
        yield crawl(_LONG, now_ns - 50 * SECOND, 1000), None

    fill(folder, both(), rules)
    store(folder, fall(rules, now_ns, 5.0))
    print(f"{_stored(folder):,} evaluations of {traces:,} traces, made in {time.monotonic() - begun:.0f} s")
    # The server runs in this process: its garbage collections must not look through what making the store left.
    gc.collect()
    gc.freeze()


def _others() -> list[str]:
    """The ready-made rules but the one that the shop has of its own."""
    own = {rule.id for rule in load_rules([str(RULES)]).rules}
    return [f"builtin:{rule.id}" for rule in load_rules(["builtin:all"]).rules if rule.id not in own]


def _stored(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "tracegrade.db")) as store:
        found: int = store.execute("SELECT sum(json_array_length(evaluations)) FROM traces").fetchone()[0]
        return found


def _measure(site: Site, url: str, calls: int) -> None:
    with reading_store(url) as store:
        session = store.execute(text("SELECT trace_id FROM traces WHERE members IS NOT NULL LIMIT 1")).scalar()
        incident = store.execute(text("SELECT id FROM incidents LIMIT 1")).scalar()
        of_shop = text("SELECT trace_id FROM traces WHERE service = 'shop' ORDER BY number DESC LIMIT 1")
        failing = bytes(store.execute(of_shop).scalar_one()).hex()
    addresses = [
        "/",
        "/?range=1h",
        "/?range=7d",
        "/?range=30d",
        "/?range=30d&service=shop&agent=order-agent",
        "/?range=30d&rule=refund-without-lookup",
        "/traces",
        "/traces?range=30d&outcome=fail",
        "/traces?range=30d&outcome=error",
        "/traces?range=30d&rule=order-steps-out-of-order&outcome=fail&release=1.4.2",
        f"/traces/{failing}",
        *([f"/traces/a1{_LONG:030x}", f"/traces/a1{_LONG:030x}?all=1"] if incident is not None else []),
        "/rules?range=30d",
        "/rules/order-steps-out-of-order?range=30d",
        "/alerts?range=30d",
        *([f"/incidents/{incident}"] if incident is not None else []),
        "/sessions?range=30d",
        *([f"/sessions/{bytes(session).hex()}"] if session is not None else []),
        "/ingest",
    ]
    print(f"{'median':>8} {'slowest':>8} {'CPU':>8} {'size':>8}  address")
    for address in addresses:
        took, size, cpu_s = [], 0, time.process_time()
        for _ in range(calls):
            begun = time.perf_counter()
            answer = site.get(address)
            took.append(1000 * (time.perf_counter() - begun))
            size = len(answer.text)
            assert answer.status == 200, answer.text
        cpu_ms = 1000 * (time.process_time() - cpu_s) / calls
        print(
            f"{statistics.median(took):5.0f} ms {max(took):5.0f} ms {cpu_ms:5.0f} ms {size / 1000:5.0f} kB  {address}"
        )


if __name__ == "__main__":
    main()
