"""What ``tracegrade compare`` takes over two sides of many results.

    python tests/system/bench/compare.py [--traces 100000] [--data-dir FOLDER]

Makes three runs by ``tracegrade replay --experiment``, unless FOLDER holds them: traces of an agent, three calls and a
model call, three traces a session, judged by two rules. The second has the prompts of the first, so that pairs are
compared, the third its own, so that sessions are. Then each comparison as a process of its own: its time on the wall,
its CPU, and the most memory it held, MiB. Where the machine does something else meanwhile, CPU says more.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

RULES = {
    "order": "evaluate:\n  - {evaluator: tool-call-order, tool_calls_order: [find_order, check_policy, refund]}\n",
    "right-order": "evaluate:\n  - evaluator: tool-call-args\n    subset: true\n    tool_calls:\n"
    "      - {name: refund, args: {order_id: {$from: find_order.output.id}}}\n",
}
RUNS = {"bench/a": (0.02, "order"), "bench/b": (0.025, "order"), "bench/c": (0.025, "parcel")}
"""The runs: how often each fails, and what its prompts are about."""
COMPARISONS = (
    ("rates", "bench/b", "--rates-only"),
    ("pairs", "bench/b", "--no-behaviour"),
    ("clusters", "bench/c", "--no-behaviour"),
    ("pairs, behaviour", "bench/b"),
    ("clusters, behaviour", "bench/c"),
)
_TRACES_A_REQUEST = 500
_START_NS = 1_795_000_000_000_000_000
_MS = 1_000_000


def main() -> None:
    """Make the runs if there are none, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=100_000, help="of each run")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracegrade-bench-") as temporary:
        folder = options.data_dir or Path(temporary)
        if not (folder / "tracegrade.db").exists():
            _make(folder, options.traces)
        print(f"{'wall':>7} {'CPU':>7} {'MiB':>6}  comparison")
        for name, other, *more in COMPARISONS:
            wall_s, cpu_s, mib = _run("compare", "bench/a", other, *more, "--format", "json", folder=folder)
            print(f"{wall_s:5.1f} s {cpu_s:5.1f} s {mib:6.0f}  {name}", flush=True)


def _make(folder: Path, traces: int) -> None:
    for rule, text in RULES.items():
        (folder / "rules" / rule).mkdir(parents=True)
        (folder / "rules" / rule / "rule.yaml").write_text(f"id: {rule}\nmatch: {{tools: [refund]}}\n{text}", "utf-8")
    for number, (run, (fails, about)) in enumerate(RUNS.items()):
        source = folder / "spans.binpb"
        with source.open("wb") as opened:
            for request in _requests(traces, random.Random(number), fails, about):
                opened.write(_delimited(request.SerializeToString()))
        rules = str(folder / "rules")
        wall_s, cpu_s, _ = _run(
            "replay", str(source), "--rules", rules, "--experiment", "bench", "--run", run, folder=folder
        )
        print(f"{wall_s:5.1f} s {cpu_s:5.1f} s         {run}: {traces:,} traces judged and stored", flush=True)
        source.unlink()


def _delimited(message: bytes) -> bytes:
    """A message of a stream: its length as a varint before it."""
    head, length = bytearray(), len(message)
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes((*head, length)) + message


def _requests(traces: int, chance: random.Random, fails: float, about: str) -> Iterator[ExportTraceServiceRequest]:
    for first in range(0, traces, _TRACES_A_REQUEST):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        _set(resource.resource, {"service.name": "shop", "service.version": "1.4.2"})
        scope = resource.scope_spans.add()
        for number in range(first, min(first + _TRACES_A_REQUEST, traces)):
            _add_trace(scope, number, chance, fails, about)
        yield request


def _add_trace(scope: ScopeSpans, number: int, chance: random.Random, fails: float, about: str) -> None:
    trace_id, agent, start_ns = chance.randbytes(16), chance.randbytes(8), _START_NS + number * 1000 * _MS
    prompt = f"refund {about} {number}"
    of_agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "support",
        "gen_ai.conversation.id": f"{about}-{number // 3}",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": prompt}]}]),
    }
    root = scope.spans.add(name="invoke_agent", start_time_unix_nano=start_ns, end_time_unix_nano=start_ns + 500 * _MS)
    spans: list[tuple[Span, dict[str, Any]]] = [(root, of_agent)]
    of_chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 200 + chance.randrange(50),
        "gen_ai.usage.output_tokens": 20 + chance.randrange(20),
    }
    chat = scope.spans.add(name="chat", start_time_unix_nano=start_ns, end_time_unix_nano=start_ns + 80 * _MS)
    spans.append((chat, of_chat))
    tools = ["find_order", "check_policy", "refund"]
    if chance.random() < fails:
        tools.reverse()
    for place, tool in enumerate(tools):
        begin_ns = start_ns + (100 + 50 * place) * _MS
        span = scope.spans.add(
            name="execute_tool", start_time_unix_nano=begin_ns, end_time_unix_nano=begin_ns + 40 * _MS
        )
        arguments = {"order_id": f"ORD-{number}", "reason": chance.choice(["late", "broken", "unwanted"])}
        of_tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": json.dumps({"id": f"ORD-{number}", "ok": True}),
        }
        spans.append((span, of_tool))
    for span, attributes in spans:
        span.trace_id = trace_id
        span.span_id = agent if span is root else chance.randbytes(8)
        span.parent_span_id = b"" if span is root else agent
        span.kind = Span.SPAN_KIND_INTERNAL
        _set(span, attributes)


def _set(carrier: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        item = carrier.attributes.add(key=key)
        if isinstance(value, int):
            item.value.int_value = value
        else:
            item.value.string_value = value


def _run(*arguments: str, folder: Path) -> tuple[float, float, float]:
    """What a command takes: s on the wall, s of CPU with its workers, and the most memory of one process, MiB."""
    command: Sequence[str] = [sys.executable, "-m", "tracegrade", *arguments, "--data-dir", str(folder)]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1, 3), command
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
