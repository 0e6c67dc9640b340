"""Whoever meets a condition or a finding of doctor finds it in docs/guides/operate.md."""

import ast
import re
from pathlib import Path

import tracegrade.doctor
from build import each
from docs.pages import ROOT
from tracegrade.telemetry.conditions import KINDS

PAGE = (ROOT / "docs/guides/operate.md").read_text(encoding="utf-8")


def _rows(heading: str) -> set[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([a-z_ ]+)` \|", section, re.MULTILINE))


def _checks() -> set[str]:
    """The names of checks that doctor's sources give to findings."""
    (folder,) = tracegrade.doctor.__path__
    return {
        node.args[0].value
        for path in Path(folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    }


def test_every_condition_has_a_row_and_no_other() -> None:
    assert _rows("Conditions") == KINDS.keys()


def test_every_check_of_doctor_has_a_row_and_no_other() -> None:
    assert len(_checks()) > 10
    assert _rows("What doctor finds") == _checks()


@each("name", [name for name, kind in KINDS.items() if kind.refuses])
def test_conditions_that_refuse_senders_say_so(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| (.+?) \|", PAGE, re.MULTILINE)
    assert row.startswith("senders are refused")
