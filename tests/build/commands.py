"""A data folder with results, and commands run over it."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tracegrade.cli import main


def run(data_dir: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--data-dir", str(data_dir)])


def run_json(data_dir: Path, *arguments: str) -> list[dict[str, Any]]:
    result = run(data_dir, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
