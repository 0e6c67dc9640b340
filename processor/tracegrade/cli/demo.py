"""``tracegrade demo``: serve, and a small instrumented agent with good and bad runs."""

import asyncio
import json
import shlex
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.output import EXIT_FAILED, outcome_text, print_line, print_table
from tracegrade.cli.process import make_files_private, own_command, temporary_folder

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.model.evaluation import Evaluation
    from tracegrade.serve.receive_role import ReceiveRole

# The demo's agent never leaves a span behind, so a short quiet time is enough to call its traces whole.
_CONFIG = """\
# Written by 'tracegrade demo'.
data_dir: {data_dir}
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{grpc}"}}
      http: {{endpoint: "127.0.0.1:{http}"}}
telemetry: {{endpoint: "127.0.0.1:{telemetry}"}}
web: {{endpoint: "127.0.0.1:{web}"}}
traces: {{settle: 500ms}}
rules: {{paths: ["builtin:demo"]}}
"""
_USUAL_PORTS = {"grpc": 4317, "http": 4318, "telemetry": 8888, "web": 4319}
_JUDGED_WITHIN_S = 30.0
_PAUSE_S = 5.0  # of an agent that sends elsewhere, after each time it made all its runs


@click.command(cls=Command)
@click.option("--once", is_flag=True, help="Run the agent, print what was judged, and end.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Keep the data here instead of a temporary folder.")
@click.option(
    "--send-to",
    metavar="HOST:PORT",
    callback=lambda _context, _parameter, endpoint: endpoint and _host_and_port(endpoint),
    help="Run the agent alone, every few seconds, and send its traces to this OTLP/gRPC receiver.",
)
def command(once: bool, data_dir: Path | None, send_to: str | None) -> None:
    """See it work: an order agent makes good and bad runs, three rules judge them.

    Its data is removed at the end, unless --data-dir is given.
    """
    if send_to is not None:
        if data_dir is not None:
            raise click.UsageError("--data-dir: with --send-to nothing is stored here; leave out one of the two")
        return _send(send_to, once=once)
    if data_dir is not None:
        sys.exit(_demo(data_dir, once=once, is_kept=True))
    with temporary_folder("tracegrade-demo-") as folder:
        sys.exit(_demo(folder, once=once, is_kept=not once))


def _host_and_port(endpoint: str) -> str:
    from tracegrade.receive.settings import split_endpoint

    try:
        split_endpoint(endpoint)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return endpoint


def _send(endpoint: str, *, once: bool) -> None:
    """Make all runs until a signal comes, or once; what was not sent by then is sent before this returns."""
    import signal

    from tracegrade.cli.demo_agent import RUNS, DemoAgent

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    agent = DemoAgent(endpoint)
    print_line(f"The order agent sends its traces to {endpoint}." + ("" if once else " Ctrl-C ends it."))
    while not stop.is_set():
        for script in RUNS:
            agent.run(script)
        if once:
            break
        stop.wait(_PAUSE_S)
    agent.flush()


def _demo(folder: Path, *, once: bool, is_kept: bool) -> int:
    from tracegrade.config import load_config
    from tracegrade.serve.receive_role import ReceiveRole

    make_files_private()
    folder.mkdir(parents=True, exist_ok=True)
    config_path = folder / "demo.yaml"
    ports = _free_ports() if once else _usual_ports()
    config_path.write_text(_CONFIG.format(data_dir=json.dumps(str(folder.resolve()), ensure_ascii=False), **ports))
    config = load_config(config_path)
    look_at = config_path if is_kept else None
    return asyncio.run(_serve(ReceiveRole(config, config_path, with_judge=True), config, look_at, once=once))


async def _serve(role: "ReceiveRole", config: "Config", look_at: Path | None, *, once: bool) -> int:
    import signal

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    shown: list[bool] = []

    def ready(endpoints: dict[str, str]) -> None:
        def agent() -> None:
            try:
                shown.append(_run_agent(endpoints, config, look_at, once=once))
            finally:
                if once:
                    loop.call_soon_threadsafe(stop.set)

        threading.Thread(target=agent, name="demo-agent", daemon=True).start()

    code = await role.run(stop, ready)
    return code or (0 if not once or shown == [True] else EXIT_FAILED)


def _run_agent(endpoints: dict[str, str], config: "Config", look_at: Path | None, *, once: bool) -> bool:
    from tracegrade.cli.demo_agent import RUNS, DemoAgent

    print_line(f"Receiving OTLP/gRPC on {endpoints['grpc']} and OTLP/HTTP on {endpoints['http']}.")
    agent = DemoAgent(endpoints["grpc"])
    titles = {agent.run(script): script.title for script in RUNS}
    agent.flush()
    print_line(f"The order agent made {len(RUNS)} runs; waiting until they are judged ...")
    print_line()
    judged = _wait_until_judged(config, set(titles))
    _print_results(config, titles)
    if not judged:
        print_line(f"Not every run was judged within {_JUDGED_WITHIN_S:g} s; see the messages above.", err=True)
    failing = next((trace for trace, title in titles.items() if "before" in title), next(iter(titles)))
    if not once:
        print_line(f"Open:         {endpoints['web']}")
    if look_at is not None:
        settings = f"-c {shlex.quote(str(look_at.resolve()))}"
        print_line(f"Look closer:  {own_command()} results list {settings}")
        print_line(f"              {own_command()} why {failing} {settings}")
    if not once:
        print_line(f"Metrics:      http://{endpoints['telemetry']}/metrics")
        print_line("Send your own agent's traces to the addresses above. Ctrl-C ends the demo.")
    return judged


def _wait_until_judged(config: "Config", trace_ids: set[str]) -> bool:
    from tracegrade.store.errors import StoreError
    from tracegrade.store.heads import trace_heads
    from tracegrade.store.open import open_store
    from tracegrade.store.result_filter import ResultFilter

    deadline_s = time.monotonic() + _JUDGED_WITHIN_S
    while time.monotonic() < deadline_s:
        try:
            engine = open_store(config.store_url, read_only=True)
        except StoreError:  # the judge has not made it yet
            time.sleep(0.1)
            continue
        with engine.connect() as connection:
            stored = {head.trace_id for head in trace_heads(connection, ResultFilter(), limit=10 * len(trace_ids))}
        engine.dispose()
        if trace_ids <= stored:
            return True
        time.sleep(0.1)
    return False


def _print_results(config: "Config", titles: dict[str, str]) -> None:
    from tracegrade.store.open import reading_store
    from tracegrade.store.read import stored_traces

    rows: list[list[object]] = []
    with reading_store(config.store_url) as connection:
        for trace_id, title in titles.items():
            for stored in stored_traces(connection, bytes.fromhex(trace_id)):
                rows += _rows(title, stored.evaluations)
    print_table("", ["the agent ...", "outcome", "score", "rule/evaluation", "why"], rows)


def _rows(title: str, evaluations: "list[Evaluation]") -> list[list[object]]:
    """One row for a run without fault, else one for each evaluation that did not pass."""
    faults = [evaluation for evaluation in evaluations if evaluation.outcome != "pass"]
    if not faults:
        rules = len({evaluation.rule_id for evaluation in evaluations})
        return [[title, outcome_text("pass"), 1.0, f"all {rules} rules", ""]]
    return [
        [
            title if number == 0 else "",
            outcome_text(fault.outcome),
            fault.score,
            f"{fault.rule_id}/{fault.evaluation}",
            fault.full_explanation,
        ]
        for number, fault in enumerate(faults)
    ]


def _usual_ports() -> dict[str, int]:
    """The usual ports, or free ones where they are taken."""
    free = _free_ports()
    return {name: port if _is_free(port) else free[name] for name, port in _USUAL_PORTS.items()}


def _free_ports() -> dict[str, int]:
    return dict.fromkeys(_USUAL_PORTS, 0)


def _is_free(port: int) -> bool:

    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
