"""A suite as a job: CPU a case, how many requests are under way, and how long others wait for the store meanwhile.

    python tests/system/bench/jobs.py [--cases 1000] [--at-a-time 20] [--answer-s 0.25] [--rate 10]

`serve` judges live traces at a steady rate all along. A prober asks for the store's write lock a hundred times a second
and gives it back, as the judge would have to wait for it; a second one stores a suite ten times a second, as a form of
the page does. Both before the job (the base) and while it runs. CPU is that of the worker process, less what it takes
to start.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.serving import HERE, cpu_s, descendants, serving, wait_until  # importable by the line above

from tracegrade.config import load_config
from tracegrade.store.open import reading_store
from tracegrade.suites.jobs.submit import known_job, submit
from tracegrade.suites.jobs.suite_request import suite_request
from tracegrade.suites.keeping import add_suite, remove_suite


def main() -> None:
    """Run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--at-a-time", type=int, default=20)
    parser.add_argument("--answer-s", type=float, default=0.25, help="the time of a model's answer")
    parser.add_argument("--rate", type=float, default=10, help="requests of live traces a second; 0: none")
    parser.add_argument("--spans", type=int, default=100, help="spans in each, about")
    parser.add_argument("--base-s", type=float, default=10, help="how long the base is measured")
    options = parser.parse_args()
    if options.cases <= options.at_a_time:
        parser.error(f"--cases {options.cases}: expected more than --at-a-time, {options.at_a_time}")
    model = subprocess.Popen(
        [sys.executable, str(HERE / "model_server.py"), str(options.answer_s)], stdout=subprocess.PIPE, text=True
    )
    assert model.stdout is not None
    port = int(model.stdout.readline())
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as name:
        folder = Path(name)
        provider = {"base_url": f"http://127.0.0.1:{port}/v1", "at_a_time": options.at_a_time, "models": {"m": {}}}
        (folder / "models.yaml").write_text(json.dumps({"providers": {"one": provider}}))
        settings = f"suites: {{models: '{folder / 'models.yaml'}'}}\n"
        with serving(folder, settings=settings) as served:
            config = load_config(folder / "bench.yaml")
            load = _load(served.endpoint, options)
            base = Probers(served.data, config.store_url)
            until_s = time.monotonic() + options.base_s
            base.run_while(lambda: time.monotonic() < until_s)
            suite = add_suite(config.store_url, "default", _suite(options.cases), time.time_ns()).suite
            asked = suite_request({"suite": suite.id, "models": ["one::m"]})
            small = add_suite(config.store_url, "default", _suite(1), time.time_ns()).suite
            first = submit(config, "default", "", suite_request({"suite": small.id, "models": ["one::m"]}))
            wait_until(lambda: _state(config.store_url, first.id) == "done")  # so that the worker has started
            worker = next(pid for pid in descendants(served.process.pid) if _is_worker(pid))
            before_s, begun_s = cpu_s(worker), time.monotonic()
            job = submit(config, "default", "", asked)
            during = Probers(served.data, config.store_url)
            during.run_while(lambda: _state(config.store_url, job.id) in ("queued", "running"))
            took_s, worker_s = time.monotonic() - begun_s, cpu_s(worker) - before_s
            assert _state(config.store_url, job.id) == "done"
            if load is not None:
                load.terminate()
    model.terminate()
    said = json.loads(model.communicate(timeout=60)[0])
    asked_times = sorted(said["times"])[1:]
    assert len(asked_times) == options.cases, "a case was asked twice, or not at all"
    least_s = options.cases / options.at_a_time * options.answer_s
    print(f"{options.cases} cases, {options.at_a_time} at a time, answers after {options.answer_s} s")
    print(f"  took {took_s:.1f} s; {least_s:.1f} s is the least")
    print(f"  under way: {_under_way(asked_times, options.at_a_time):.2f} of {options.at_a_time} on average")
    print(f"  CPU of the worker: {worker_s / options.cases * 1e3:.2f} ms a case")
    print(f"{'wait, ms':28} {'p50':>8} {'p99':>8} {'most':>8} {'number':>8}")
    for name, found in (("before", base), ("while it runs", during)):
        print(f"  the write lock, {name:12} {_figures(found.lock_s)}")
        print(f"  a form, {name:20} {_figures(found.form_s)}")


class Probers:
    """Two threads that write, and note how long each write took, in s."""

    def __init__(self, data: Path, store_url: str) -> None:
        self.lock_s: list[float] = []
        self.form_s: list[float] = []
        self._data = data
        self._store_url = store_url
        self._over = threading.Event()

    def run_while(self, goes_on: Callable[[], bool]) -> None:
        """Until it no longer goes on."""
        threads = [threading.Thread(target=self._locks), threading.Thread(target=self._forms)]
        for thread in threads:
            thread.start()
        while goes_on():
            time.sleep(0.2)
        self._over.set()
        for thread in threads:
            thread.join()

    def _locks(self) -> None:
        store = sqlite3.connect(self._data / "tracegrade.db", isolation_level=None)
        store.execute("PRAGMA busy_timeout=5000")
        while not self._over.wait(0.01):
            begun = time.monotonic()
            store.execute("BEGIN IMMEDIATE")
            self.lock_s.append(time.monotonic() - begun)
            store.execute("ROLLBACK")
        store.close()

    def _forms(self) -> None:
        while not self._over.wait(0.1):
            begun = time.monotonic()
            suite = add_suite(self._store_url, "default", _suite(3), time.time_ns()).suite
            self.form_s.append(time.monotonic() - begun)
            remove_suite(self._store_url, "default", suite.id)


def _suite(cases: int) -> dict[str, object]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
    tests = [
        {
            "prompt": f"Weather in city {number}?",
            "expected_tool": "get_weather",
            "expected_params": {"city": f"city {number}"},
        }
        for number in range(cases)
    ]
    return {"name": "Weather", "tools": [tool], "test_cases": tests}


def _load(endpoint: str, options: argparse.Namespace) -> "subprocess.Popen[bytes] | None":
    if not options.rate:
        return None
    command = [sys.executable, HERE / "load.py", endpoint, "--seconds", 600, "--rate", options.rate]
    command += ["--spans", options.spans, "--concurrency", 4]
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)


def _state(store_url: str, job: str) -> str:
    with reading_store(store_url) as connection:
        return known_job(connection, "default", job).state


def _is_worker(pid: int) -> bool:
    return b"\0--role\0jobs\0" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _under_way(times: list[tuple[float, float]], at_a_time: int) -> float:
    """How many requests were under way on average, from the first until fewer are left than may be."""
    begin, end = times[0][0], times[-at_a_time][0]
    return sum(max(0.0, min(last, end) - max(first, begin)) for first, last in times) / (end - begin)


def _figures(found: list[float]) -> str:
    ordered = sorted(item * 1e3 for item in found)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return f"{p50:>8.1f} {p99:>8.1f} {ordered[-1]:>8.1f} {len(ordered):>8}"


if __name__ == "__main__":
    main()
