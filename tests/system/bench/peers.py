"""What programs that take OTLP traces use of the machine, and what they lose when they are killed, in one run.

    python tests/system/bench/peers.py [--work FOLDER] [--seconds 5] [--rate 3] [--rounds 2] [--kills 2] [PEER ...]

Prints a table: CPU per span of all processes of the server until they rest again, without what they use at rest; their
peak memory; what share of the spans reached the server to which they forward; and which of the spans that they had
answered never reached it although they were started again in the same folder after each `kill -9` under the same load:
the first while that server takes everything, the second when it has stood still for two seconds, and so on by turns.
What they do for a span differs, so a row says that too.

Servers take turns, so that what the machine does meanwhile falls on all of them. Each is installed into FOLDER (a
temporary one, unless given to be used again: then a run takes about six minutes) as tests/system/interop/run does; one
that cannot be had is shown with the reason. phoenix and mlflow run only when they are named: they are large, and
forward nothing. None listens beyond this machine: Phoenix, whose gRPC port knows no address, runs in a network of its
own, for which one must be root.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1:3]))

from bench.peer_servers import ON_DEMAND, PEERS, Peer  # importable by the line above
from bench.serving import BareServer, cpu_s, descendants, peak_mib, send
from interop import peers
from interop.peers import NotInstalled

REST_WITHIN_S = 60.0
RESTING = 0.15  # of a core, for so long:
RESTING_S = 2.0
LOOKS_BUSY_AFTER_S = 3.0  # who puts traces together waits two seconds for more of them
KILL_EVERY_S = 3.1  # not a multiple of the time between requests
STANDS_STILL_S = 2.0
OURS, GOAL_AGAINST, GOAL = "tracegrade", "groupbytrace", 0.80


@dataclass
class Measured:
    """What came of one server in all rounds."""

    us_per_span: list[float] = field(default_factory=list)
    spans: int = 0
    forwarded: int = 0
    peak_mib: float = 0.0
    still_at_work: bool = False
    lost: str = "–"
    failed: str = ""


def main() -> None:
    """Measure all in turns, then kill each, then print the table."""
    options = _options()
    measured: dict[str, Measured] = defaultdict(Measured)
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as temporary:
        options.work = (options.work or Path(temporary)).resolve()
        options.work.mkdir(parents=True, exist_ok=True)
        for turn in range(options.rounds):
            for name in options.peers:
                _try(name, measured[name], f"round {turn + 1} of {options.rounds}", _cost, options)
        for name in options.peers if options.kills else ():
            if PEERS[name].forwards:
                _try(name, measured[name], f"{options.kills} times kill -9", _losses, options)
    print(*table(measured), sep="\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=" ".join(PEERS))
    parser.add_argument("--work", type=Path, help="where peers are installed, to be used again")
    parser.add_argument("--seconds", type=float, default=5, help="how long to send to each in a round")
    parser.add_argument("--rate", type=float, default=3, help="requests a second at most")
    parser.add_argument("--spans", type=int, default=500, help="spans a request, about")
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured")
    parser.add_argument("--kills", type=int, default=2, help="how often each is killed under load; 0: never")
    options = parser.parse_args()
    if unknown := set(options.peers) - PEERS.keys():
        parser.error(f"no peer {', '.join(sorted(unknown))}; expected {', '.join(PEERS)}")
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    options.peers = options.peers or [name for name in PEERS if name not in ON_DEMAND]
    return options


def _try(
    name: str,
    found: Measured,
    what: str,
    measure: Callable[[Peer, Measured, argparse.Namespace], str],
    options: argparse.Namespace,
) -> None:
    """Measure, unless it failed before; tell of it on the standard error, as it takes minutes."""
    if found.failed:
        return
    begun = time.monotonic()
    try:
        said = measure(PEERS[name], found, options)
    except (NotInstalled, AssertionError, subprocess.CalledProcessError) as error:
        said = found.failed = " ".join(str(error).split())[:200]
    print(f"{name}: {what}: {said} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)


def _cost(peer: Peer, found: Measured, options: argparse.Namespace) -> str:
    """CPU, memory and what was forwarded, of one round in a fresh folder."""
    downstream = BareServer("count")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder,
            peer.start(options.work, Path(folder), downstream.port, peers.free_port()) as running,
        ):
            load = ("--spans", options.spans, "--rate", options.rate, *running.load)
            once = send(running.endpoint, 1, *load, through=running.through)  # what is done once is done here
            at_rest, _ = _rest(running.pid)
            begun, before_s = time.monotonic(), _cpu_s(running.pid)
            sent = send(running.endpoint, options.seconds, *load, through=running.through)
            _, rested = _rest(running.pid)
            spent_s = _cpu_s(running.pid) - before_s - at_rest * (time.monotonic() - begun)
            found.peak_mib = max(found.peak_mib, sum(map(peak_mib, _processes(running.pid))))
    finally:
        forwarded, _ = counted(downstream)
    found.us_per_span.append(spent_s / sent["spans"] * 1e6)
    found.spans += once["spans"] + sent["spans"]
    found.forwarded += forwarded
    found.still_at_work |= not rested
    return f"{found.us_per_span[-1]:.1f} µs of CPU a span"


def _losses(peer: Peer, found: Measured, options: argparse.Namespace) -> str:
    """Kill it again and again while the load goes on, which sends again what was not answered."""
    downstream, port = BareServer("count"), peers.free_port()
    seconds = KILL_EVERY_S * (options.kills + 1)
    try:
        with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as folder, ThreadPoolExecutor(1) as background:
            sending, begun = None, time.monotonic()
            for kill in range(options.kills + 1):
                with peer.start(options.work, Path(folder), downstream.port, port) as running:
                    if sending is None:
                        load = ("--spans", options.spans, "--rate", options.rate, *running.load)
                        sending, begun = background.submit(send, running.endpoint, seconds, *load), time.monotonic()
                    if kill < options.kills:
                        with _standing_still(downstream, begun + KILL_EVERY_S * (kill + 1), really=kill % 2 == 1):
                            _kill(running.pid)
                    else:
                        answered = sending.result()["spans"]
                        _rest(running.pid)
    finally:
        came, distinct = counted(downstream)
    found.lost = f"{answered - distinct:,} of {answered:,}" + (
        f", {came - distinct:,} twice" if came > distinct else ""
    )
    return f"lost {found.lost}"


@contextmanager
def _standing_still(downstream: BareServer, until: float, *, really: bool) -> Iterator[None]:
    """Wait for the moment, the last seconds of it with the server stopped, if `really`; it goes on after the block."""
    time.sleep(max(0.0, until - STANDS_STILL_S - time.monotonic()))
    if really:
        downstream.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(max(0.0, until - time.monotonic()))
        yield
    finally:
        downstream.process.send_signal(signal.SIGCONT)


def counted(downstream: BareServer) -> tuple[int, int]:
    """End the downstream server: how many spans came, and how many different ones."""
    counted = json.loads(downstream.end() or "{}")
    return counted.get("spans", 0), counted.get("distinct", 0)


def _processes(pid: int) -> list[int]:
    return [pid, *descendants(pid)]


def _kill(pid: int) -> None:
    for one in _processes(pid):
        os.kill(one, signal.SIGKILL)


def _cpu_s(pid: int) -> float:
    return sum(map(cpu_s, _processes(pid)))


def _rest(pid: int) -> tuple[float, bool]:
    """Wait until the server hardly works: how many cores it uses then, and whether it came to that in time."""
    deadline = time.monotonic() + REST_WITHIN_S
    time.sleep(LOOKS_BUSY_AFTER_S)
    while True:
        begun, before_s = time.monotonic(), _cpu_s(pid)
        time.sleep(RESTING_S)
        cores = (_cpu_s(pid) - before_s) / (time.monotonic() - begun)
        if cores < RESTING or time.monotonic() > deadline:
            return cores, cores < RESTING


def table(measured: dict[str, Measured]) -> list[str]:
    """A row a server, then how the cost of ours compares."""
    lines = [
        "| server | µs of CPU a span | peak MiB | forwarded | answered, then lost by kill -9 | answers | then |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in measured.items():
        peer = PEERS[name]
        if found.failed:
            lines.append(f"| {peer.name} | not measured: {found.failed} | | | | | |")
            continue
        cost = f"{statistics.mean(found.us_per_span):,.1f}"
        if len(found.us_per_span) > 1:
            cost += f" ({min(found.us_per_span):,.1f}-{max(found.us_per_span):,.1f})"
        if found.still_at_work:
            cost += f", still at work after {REST_WITHIN_S:.0f} s"
        share = f"{found.forwarded / found.spans:.0%}" if peer.forwards else "–"
        lines.append(
            f"| {peer.name} | {cost} | {found.peak_mib:,.0f} | {share} | {found.lost} | {peer.answered} | {peer.does} |"
        )
    return lines + _against(measured)


def _against(measured: dict[str, Measured]) -> list[str]:
    """CPU a span of ours as a multiple of each other's that forwards, round by round."""
    ours = measured[OURS].us_per_span if OURS in measured else []
    lines = []
    for name, found in measured.items():
        if name == OURS or not PEERS[name].forwards or not ours or len(ours) != len(found.us_per_span):
            continue
        times = [mine / other for mine, other in zip(ours, found.us_per_span, strict=True)]
        rounds = ", ".join(f"{one:.2f}" for one in times)
        goal = f"; the goal is {GOAL:.2f} at most" if name == GOAL_AGAINST else ""
        lines.append(f"{PEERS[OURS].name} takes {statistics.mean(times):.2f} of {PEERS[name].name} ({rounds}){goal}")
    return ["", *lines] if lines else []


if __name__ == "__main__":
    main()
