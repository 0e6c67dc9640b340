"""Whether a stage of the path costs more than it did: a gate that holds on busy and on unequal machines.

    python tests/system/bench/regression.py               fails when a stage costs a quarter more than is committed
    python tests/system/bench/regression.py --update      commits what this interpreter measures, after a change of cost
    python tests/system/bench/regression.py --prove       the gate itself: quiet and busy, as it is and 1.5 times it

Each stage (`stages.py`) is measured in turns with a fixed piece of work of the same nature (`reference_work.py`), in
one process: its ratio is its CPU time over that of the work just before and after it, and the median over some hundred
requests counts; when a stage fails all is measured again, in another process, and what fails three times fails. A
slower machine, another process on the same cores or another interpreter changes both alike, or nearly. What is left is
small against what is looked for: on busy cores the medians stay within a fifth, most within a tenth. Interpreters (3.11
with and without profile-guided optimisation, 3.12, 3.13) and kinds of processors are within a third of their middle, so
a build on a processor has ratios of its own, and one that was not measured is held against the middle of those that
were, with more tolerance: half as much again may then be missed.

Files are kept in memory where the system has such a folder (/dev/shm): the CPU that a disk costs is the kernel's, and
differs between disks. Where it has none, the stages that write are shown and not judged.

Exit codes: 0 as committed, or cheaper; 1 a stage costs more, or has no committed ratio.
"""

import argparse
import gc
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TypeVar

HERE = Path(__file__).parent
sys.path.extend(map(str, HERE.parents[:2]))

from bench.reference_work import request, work  # noqa: E402  # the line above makes it importable
from bench.stages import Stages  # noqa: E402

EXPECTED = HERE / "expected_ratios.json"
TOLERANCE = 1.25  # half of what is looked for, a stage that costs 1.5 times as much
TOLERANCE_OF_OTHERS = 1.4  # of a build, or a processor, that has no ratios of its own
GROUP = 2  # requests that give one ratio
WARM_UP = 4  # groups: traces begin to settle, and what is learnt once a process is learnt
AGAIN = 2  # times, each in a process of its own: what is dearer is dearer each time, wherever its memory lies
RULES = 50
EVERY_NS = 1_100_000_000  # requests come so far apart that few traces are open
IN_MEMORY = Path("/dev/shm")
CPU_INFO = Path("/proc/cpuinfo")
WRITING = ("journal: append", "results: append", "sink: sql")
BUSY = "import itertools\nfor n in itertools.count(): sorted(str(n ^ i) for i in range(200_000))"

Result = TypeVar("Result")
Ratios = dict[str, float]  # stage -> how many times the reference work a request costs


def main() -> int:
    """Measure and judge; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=120, help="of two requests (494 spans each); their median counts")
    parser.add_argument("--seconds", type=float, default=40, help="no longer than this, with fewer groups if need be")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--update", action="store_true", help="write what is measured here as what is expected")
    what.add_argument("--prove", action="store_true", help="try the gate itself: takes four times as long")
    options = parser.parse_args()
    committed: dict[str, Ratios] = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    if options.update:
        committed[build()] = measure(options.groups, options.seconds)
        EXPECTED.write_text(json.dumps(dict(sorted(committed.items())), indent=2) + "\n")
        return 0
    expected = expected_ratios(committed, build())
    if options.prove:
        return 0 if prove(expected, options.groups, options.seconds) else 1
    own = build() in committed
    tolerance = TOLERANCE if own else TOLERANCE_OF_OTHERS
    measured = measure(options.groups, options.seconds)
    for _ in range(AGAIN):
        if not failures(measured, expected, tolerance):
            break
        again = measure_elsewhere(options.groups, options.seconds)
        measured = {stage: min(ratio, again[stage]) for stage, ratio in measured.items()}
    against = "its own ratios" if own else "the middle of the builds that were measured"
    print(f"{build()}, against {against}; a stage may cost {tolerance} times what is expected")
    dearer = failures(measured, expected, tolerance)
    for stage, ratio in measured.items():
        share = ratio / expected[stage] if stage in expected else float("inf")
        print(f"{stage:26} {ratio:7.3f} {share:6.2f} times expected{'  FAILED' if stage in dearer else ''}")
    if dearer:
        print("Find what made it dearer; if worth it, commit that: python tests/system/bench/regression.py --update")
    return 1 if dearer else 0


def build() -> str:
    """This interpreter, by its version, by what it was built and when, and its processor: ratios differ by both."""
    _, when = platform.python_build()
    interpreter = (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}, {when}"
    )
    return f"{interpreter}, {_processor()}"


def _processor() -> str:
    """Whose, and which: names as sold are the same for several generations."""
    if not CPU_INFO.exists():
        return platform.processor() or platform.machine()
    lines = [line.partition(":") for line in CPU_INFO.read_text().splitlines()]
    said = {name.strip(): value.strip() for name, _, value in lines}
    return " ".join(said.get(name, "") for name in ("vendor_id", "cpu family", "model")).strip() or platform.machine()


def expected_ratios(committed: Mapping[str, Ratios], name: str) -> Ratios:
    """What build `name` should measure: its own ratios, else the middle of the least and the greatest of all builds."""
    if name in committed:
        return committed[name]
    found: dict[str, list[float]] = defaultdict(list)
    for ratios in committed.values():
        for stage, ratio in ratios.items():
            found[stage].append(ratio)
    return {stage: (min(ratios) * max(ratios)) ** 0.5 for stage, ratios in found.items()}


def failures(measured: Ratios, expected: Ratios, tolerance: float = TOLERANCE) -> set[str]:
    """The stages that cost more than `tolerance` times what is expected, and those of which nothing is."""
    return {stage for stage, ratio in measured.items() if ratio > tolerance * expected.get(stage, 0)}


def measure_elsewhere(groups: int, seconds: float) -> Ratios:
    """As `measure`, in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure, groups, seconds).result()


def measure(groups: int, seconds: float, *, half_again: bool = False) -> Ratios:
    """Each stage's ratio: the median over `groups`, or over as many as there is time for.

    Args:
        groups: how many ratios of each stage; each is of two requests.
        seconds: how long it may take, by the clock on the wall.
        half_again: have each stage do half as much again as is counted: three requests for two.
    """
    encoded = request()
    found: dict[str, list[float]] = defaultdict(list)
    deadline = time.monotonic() + seconds
    in_memory = IN_MEMORY if IN_MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="tracegrade-bench-", dir=in_memory) as folder,
        Stages(Path(folder), RULES, EVERY_NS) as stages,
        _without_collector(),
    ):
        for number in range(WARM_UP + groups):
            for stage, ratio in _group(stages, GROUP + half_again, encoded).items():
                if number >= WARM_UP:
                    found[stage].append(ratio)
            gc.collect()
            if time.monotonic() > deadline and found:
                break
    if in_memory is None:
        print(f"not judged, since there is no {IN_MEMORY}: {', '.join(WRITING)}")
    return {stage: round(median(ratios), 3) for stage, ratios in found.items() if in_memory or stage not in WRITING}


def _group(stages: Stages, count: int, encoded: bytes) -> Ratios:
    """Take `count` requests, as if they were `GROUP`; each stage's ratio."""
    spent: dict[str, float] = defaultdict(float)
    beside: dict[str, list[float]] = defaultdict(list)
    reference_s = _reference(encoded)

    def timed(stage: str, run: Callable[[], Result]) -> Result:
        nonlocal reference_s
        begun = time.process_time()
        result = run()
        spent[stage] += time.process_time() - begun
        before, reference_s = reference_s, _reference(encoded)
        beside[stage] += (before, reference_s)
        return result

    for _ in range(count):
        stages.take_request(timed)
    return {stage: seconds / GROUP / (sum(beside[stage]) / len(beside[stage])) for stage, seconds in spent.items()}


def _reference(encoded: bytes) -> float:
    begun = time.process_time()
    work(encoded)
    work(encoded)
    return time.process_time() - begun


@contextmanager
def _without_collector() -> Iterator[None]:
    """Garbage is collected between groups alone, as the judge does once a minute."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def prove(expected: Ratios, groups: int, seconds: float) -> bool:
    """Whether the gate passes what is as expected and fails what is half as dear again, alone and on busy cores."""
    columns: dict[str, Ratios] = {}
    for machine, busy in (("", 0), (", cores busy", 2)):
        with _busy(busy):
            columns[f"as it is{machine}"] = measure(groups, seconds)
            columns[f"half again{machine}"] = measure(groups, seconds, half_again=True)
    print("| times expected |" + "".join(f" {name} |" for name in columns))
    print("| --- |" + " --- |" * len(columns))
    for stage in columns["as it is"]:
        print(f"| {stage} |" + "".join(f" {found[stage] / expected[stage]:.2f} |" for found in columns.values()))
    right = [
        failures(found, expected) == (set(found) if name.startswith("half") else set())
        for name, found in columns.items()
    ]
    print("as it should be" if all(right) else "the gate does not hold")
    return all(right)


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """So many processes that never rest."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
