"""Examples as ``tracegrade evaluate`` judges them, and as people write them."""

import json
from typing import Any

import yaml
from click.testing import CliRunner

from tracegrade.cli import main


def judged(case: dict[str, Any]) -> dict[str, Any]:
    """The line that ``tracegrade evaluate --batch`` prints for a case; matchers are on."""
    done = CliRunner().invoke(main, ["evaluate", "--batch", "-"], input=json.dumps({**case, "matchers": True}))
    line: dict[str, Any] = json.loads(done.stdout)
    return line


def flow(value: Any) -> str:
    """YAML on one line."""
    written: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=100_000, allow_unicode=True)
    return written.removesuffix("\n...\n").strip()


def run_text(calls: list[dict[str, Any]]) -> str:
    """Calls as people write them, an arrow between each two."""
    return " → ".join(f"`{_call(call)}`" for call in calls)


def _call(call: dict[str, Any]) -> str:
    given = ", ".join(f"{name}: {flow(value)}" for name, value in call.get("args", {}).items())
    gave = " fails" if "error" in call else f" = {flow(call['output'])}" if "output" in call else ""
    return f"{call['name']}({given}){gave}"
