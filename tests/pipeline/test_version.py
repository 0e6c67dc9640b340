"""The version that results name: of an index it is enough, of a folder the code is part of it."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tracegrade.pipeline import version as module
from tracegrade.pipeline.version import tracegrade_version


class Installed:
    """A distribution, from an index or from a folder."""

    version = "0.2.0"

    def __init__(self, direct_url: str | None) -> None:
        self._direct_url = direct_url

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._direct_url


@pytest.fixture(autouse=True)
def _asked_anew() -> None:
    tracegrade_version.cache_clear()


def test_one_from_an_index_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "distribution", lambda name: Installed(None))
    assert tracegrade_version() == "0.2.0"


def test_one_from_a_folder_changes_with_the_modules_that_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "distribution", lambda name: Installed("{}"))
    source = Path(str(module.__file__)).parents[1]
    for name in module._JUDGING:
        assert (source / name).exists(), name
    monkeypatch.setattr(module, "_JUDGING", ("judge.py", "match"))
    (tmp_path / "match").mkdir()
    (tmp_path / "telemetry").mkdir()
    for name in ("judge.py", "match/index.py", "telemetry/metrics.py"):
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "pipeline/version.py"))
    found = []
    for name in ("judge.py", "telemetry/metrics.py", "match/index.py"):
        tracegrade_version.cache_clear()
        found.append(tracegrade_version())
        (tmp_path / name).write_text("x = 2\n")
    tracegrade_version.cache_clear()
    found.append(tracegrade_version())
    first, judge_edited, telemetry_edited, index_edited = found
    assert re.fullmatch(r"0\.2\.0\+[0-9a-f]{8}", first)
    assert len({first, judge_edited, index_edited}) == 3
    assert judge_edited == telemetry_edited, "what judges nothing is no part of it"


def test_all_that_judging_loads_is_part_of_it() -> None:
    program = """
import sys
import tracegrade.assemble.decode, tracegrade.assemble.live_traces, tracegrade.judge, tracegrade.rule.load
from tracegrade.evaluate.criteria.compile import compile_value
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.work import Work
list(EVALUATORS.values())
compile_value({"$secret": True}).matches("key: a", Work())
print(*{name.split(".")[1] for name in sys.modules if name.startswith("tracegrade.")})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rooms = {name.removesuffix(".py") for name in module._JUDGING}
    assert set(done.stdout.split()) <= rooms | {"display"}, "display words explanations, and decides nothing"


def test_this_one_says_which_it_is() -> None:
    assert tracegrade_version().startswith(version("tracegrade"))
