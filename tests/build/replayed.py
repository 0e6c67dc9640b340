"""A rule, and files of requests that it judges."""

from pathlib import Path

from build.otlp import agent_span, payload, tool_span

CHECK, CREATE = "check_inventory", "create_order"
RULE = """\
id: create-before-check
match: {tools: [create_order]}
evaluate:
  - {evaluator: tool-call-order, tool_calls_order: [check_inventory, create_order]}
"""


def write_rule(folder: Path) -> str:
    """The path of a file with the rule."""
    path = folder / "rule.yaml"
    path.write_text(RULE)
    return str(path)


def request(trace: int, *tools: str, service: str = "shop") -> bytes:
    """A request with a trace of one agent run that called `tools`."""
    calls = [tool_span(trace, 2 + n, 1, tool, start=10 * n + 10, end=10 * n + 15) for n, tool in enumerate(tools)]
    return payload([agent_span(trace, 1), *calls], service)


def write_source(folder: Path, *requests: bytes, name: str = "traces.binpb") -> str:
    """The path of a file with `requests`, each led by its length."""
    path = folder / name
    path.write_bytes(b"".join(_varint(len(data)) + data for data in requests))
    return str(path)


def _varint(number: int) -> bytes:
    digits = b""
    while number > 127:
        digits += bytes([number & 127 | 128])
        number >>= 7
    return digits + bytes([number])
