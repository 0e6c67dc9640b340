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
