"""The steps of the GitHub Action, run as GitHub runs them: a script of each, its environment, a repository."""

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from build.otlp import agent_span, payload, tool_span
from build.replayed import CHECK, CREATE, write_rule, write_source

ACTION: dict[str, Any] = yaml.safe_load(Path("deploy/github-action/action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
GOOD, BAD = (CHECK, CREATE), (CREATE,)
RULES = "rules/rule.yaml"
BASELINE = ".tracegrade/baselines/main.json"


@dataclass
class Job:
    """A checkout of a branch, of which ``origin`` has the base branch."""

    folder: Path
    temporary: Path
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    log: str = ""

    @property
    def summary(self) -> str:
        return (self.temporary / "summary").read_text()

    def run(self, only: str = "", **inputs: str) -> int:
        """Run the steps with these inputs (``_`` for ``-``); the exit code of the one that failed, else 0."""
        given = {name: spec["default"] for name, spec in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        for step in STEPS:
            if only in step["name"] and (code := self._run_step(step, given)):
                return code
        return 0

    def output(self, name: str) -> str:
        return self._value(ACTION["outputs"][name]["value"], {})

    def _run_step(self, step: dict[str, Any], given: dict[str, str]) -> int:
        script, written, summary = (self.temporary / name for name in ("script", "outputs", "summary"))
        script.write_text(step["run"])
        written.write_text("")
        summary.touch()
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_OUTPUT": str(written),
            "GITHUB_STEP_SUMMARY": str(summary),
            **{name: self._value(value, given) for name, value in step.get("env", {}).items()},
        }
        assert step["shell"] == "bash"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        self.log += done.stdout + done.stderr
        lines = written.read_text().splitlines()
        self.outputs[step.get("id", "")] = dict(line.split("=", 1) for line in lines)
        return done.returncode

    def _value(self, text: str, given: dict[str, str]) -> str:
        """`text` with its expressions worked out; whatever was not said is empty, as with GitHub."""

        def of(match: re.Match[str]) -> str:
            kind, *path = match[1].split(".")
            if kind == "inputs":
                return self._value(given[path[0]], given)
            if kind == "steps":
                return self.outputs.get(path[0], {}).get(path[2], "")
            assert match[1] == "github.base_ref", match[1]
            return "main"

        return _EXPRESSION.sub(of, text)


def git(folder: Path, *arguments: str) -> None:
    name = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True)


def traces(folder: Path, good: int, bad: int) -> None:
    (folder / "traces").mkdir(exist_ok=True)
    made = [_trace(number, *(BAD if number <= bad else GOOD)) for number in range(1, 1 + good + bad)]
    write_source(folder / "traces", *made)


def _trace(number: int, *tools: str) -> bytes:
    """An agent run with a prompt of its own."""
    root = agent_span(number, 1)
    asked = [{"role": "user", "parts": [{"type": "text", "content": f"Please order {number} of A-1."}]}]
    for attribute in root.attributes:
        if attribute.key == "gen_ai.input.messages":
            attribute.value.string_value = json.dumps(asked)
    calls = [tool_span(number, 2 + place, 1, tool, start=10 * place + 10) for place, tool in enumerate(tools)]
    return payload([root, *calls])


def tracegrade(folder: Path, *arguments: str) -> None:
    command = [str(Path(sys.executable).parent / "tracegrade"), *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository: `main` has the rule and a baseline in which nearly everything passes, `change` is one ahead."""
    folder = tmp_path_factory.mktemp("origin")
    (folder / "rules").mkdir()
    write_rule(folder / "rules")
    traces(folder, 98, 2)
    tracegrade(folder, "baseline", "save", "main", "traces", "--rules", RULES)
    git(folder, "init", "-q")
    git(folder, "add", "rules", BASELINE)
    git(folder, "commit", "-qm", "rules and their baseline")
    git(folder, "checkout", "-qb", "change")
    git(folder, "commit", "-qm", "change", "--allow-empty")
    return folder


@pytest.fixture
def job(origin: Path, tmp_path: Path) -> Job:
    """A shallow checkout of the branch `change`."""
    checkout, temporary = tmp_path / "checkout", tmp_path / "temporary"
    temporary.mkdir()
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=change", f"file://{origin}", str(checkout))
    return Job(checkout, temporary)


@pytest.mark.long
def test_a_change_that_is_as_good_passes(job: Job) -> None:
    traces(job.folder, 97, 3)
    code = job.run(rules=RULES, version="installed", fail_under="0.9", margin="0.1")
    assert code == 0, job.log
    assert job.output("gate") == "pass"
    comment = (job.folder / job.output("comment")).read_text()
    assert comment == job.summary
    assert "create-before-check" in comment
    assert "97.0%" in comment
    assert job.output("sarif") == ""


@pytest.mark.long
def test_a_change_that_is_worse_than_the_base_branch_fails(job: Job) -> None:
    traces(job.folder, 70, 30)
    code = job.run(rules=RULES, version="installed", sarif="out.sarif")
    assert code == 1, job.log
    assert job.output("gate") == "fail"
    assert "::error::the gate says: fail" in job.log
    assert "fail: worse than the base branch (-28.00 points" in job.summary
    assert "B `traces` against A `the base branch`" in job.summary
    assert str(job.temporary) not in job.summary
    assert '"ruleId":"create-before-check"' in (job.folder / "out.sarif").read_text().replace(" ", "")


@pytest.mark.long
def test_the_baseline_is_that_of_the_base_branch_whatever_the_change_says(job: Job) -> None:
    traces(job.folder, 70, 30)
    tracegrade(job.folder, "baseline", "save", "main", "traces", "--rules", RULES)
    assert job.run(rules=RULES, version="installed") == 1, job.log


@pytest.mark.long
def test_too_few_results_are_not_a_pass(job: Job) -> None:
    traces(job.folder, 5, 0)
    assert job.run(rules=RULES, version="installed") == 3, job.log
    assert job.output("gate") == "cannot_tell"


@pytest.mark.long
def test_without_a_baseline_the_pass_rate_decides(job: Job) -> None:
    traces(job.folder, 40, 10)
    for inputs in ({"base": ""}, {"baseline": ""}, {"baseline": "other.json"}):
        assert job.run(rules=RULES, version="installed", fail_under="0.7", min_results="20", **inputs) == 0, job.log
    assert "main has no other.json yet" in job.log
    assert job.run(rules=RULES, version="installed", fail_under="0.9", base="") == 1, job.log


@pytest.mark.long
def test_the_command_makes_the_traces_and_its_failure_is_one(job: Job, tmp_path: Path) -> None:
    traces(tmp_path, 100, 0)
    options = {"rules": RULES, "version": "installed", "base": "", "fail_under": "0.9"}
    assert job.run(command=f"cp -r '{tmp_path}/traces' .", **options) == 0, job.log
    assert job.run(command="false | true", **options) == 1, job.log


SENDS = """\
import os, sys
from pathlib import Path
from urllib.request import Request, urlopen

for path in sorted(Path(sys.argv[1]).iterdir()):
    address = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    sent = Request(address, path.read_bytes(), {"Content-Type": "application/x-protobuf"})
    urlopen(sent).close()
"""


def sending(job: Job, folder: Path, good: int, bad: int) -> str:
    """A command that sends so many traces, as an agent's tests would; none of them is in the checkout."""
    (job.temporary / "agent.py").write_text(SENDS)
    (folder / "sent").mkdir(exist_ok=True)
    for number in range(1, 1 + good + bad):
        (folder / "sent" / f"{number:04d}").write_bytes(_trace(number, *(BAD if number <= bad else GOOD)))
    return f"'{sys.executable}' '{job.temporary}/agent.py' '{folder}/sent'"


@pytest.mark.long
def test_what_the_command_sends_is_judged_where_there_are_no_files(job: Job, tmp_path: Path) -> None:
    command = sending(job, tmp_path, 97, 3)
    options = {"sources": "", "rules": RULES, "version": "installed"}
    assert job.run(command=command, fail_under="0.9", margin="0.1", **options) == 0, job.log
    assert (job.output("gate"), "97.0%" in job.summary) == ("pass", True)
    assert "against A `the base branch`" in job.summary
    sending(job, tmp_path, 70, 30)
    assert job.run(command=command, sarif="out.sarif", **options) == 1, job.log
    assert job.output("gate") == "fail"
    assert "fail: worse than the base branch (-28.00 points" in job.summary
    assert '"ruleId":"create-before-check"' in (job.folder / "out.sarif").read_text().replace(" ", "")


@pytest.mark.long
def test_without_a_threshold_every_stable_rule_has_to_pass(job: Job, tmp_path: Path) -> None:
    options = {"sources": "", "rules": RULES, "version": "installed", "base": ""}
    assert job.run(command=sending(job, tmp_path, 10, 0), **options) == 0, job.log
    assert job.run(command=sending(job, tmp_path, 10, 1), **options) == 1, job.log
    assert "none may fail" in job.summary


@pytest.mark.long
def test_a_command_that_fails_or_sends_nothing_is_no_pass(job: Job, tmp_path: Path) -> None:
    options = {"sources": "", "rules": RULES, "version": "installed", "base": ""}
    failing = sending(job, tmp_path, 100, 0) + "; exit 3"
    assert job.run(command=failing, fail_under="0.9", **options) == 3, job.log
    assert "::error::the command ended with exit code 3" in job.log
    assert (job.output("gate"), "100.0%" in job.summary) == ("", True)
    assert job.run(command="true", **options) == 3, job.log
    assert job.output("gate") == "cannot_tell"
    assert "no span came from the command" in (job.folder / job.output("comment")).read_text()
    assert job.run(**options) == 2, job.log
    assert "expected 'sources', or a 'command'" in job.log


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ACTION["inputs"] if name not in ("command", "version")])
def test_nothing_in_an_input_is_run(job: Job, name: str) -> None:
    traces(job.folder, 40, 0)
    inputs = {"rules": RULES, "version": "installed", name.replace("-", "_"): '$(touch ran) `touch ran`; touch ran #"'}
    job.run(**inputs)
    assert not list(job.folder.rglob("ran"))


def test_scripts_read_inputs_from_their_environment_alone() -> None:
    for step in STEPS:
        assert "${{" not in step["run"], step["name"]


@pytest.mark.long
def test_what_is_wrong_with_the_inputs_is_no_answer_of_the_gate(job: Job) -> None:
    traces(job.folder, 40, 0)
    assert job.run(rules="nowhere", version="installed") == 2
    assert job.output("gate") == ""


@pytest.mark.long
def test_what_is_installed_is_the_checkout_of_the_action_and_no_package_of_its_name(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, index = tmp_path / "a checkout", tmp_path / "index"
    for folder in (checkout / "deploy" / "github-action", index):
        folder.mkdir(parents=True)
    _package(checkout, "of the checkout")
    _wheel(index, "9.9")
    monkeypatch.setenv("GITHUB_ACTION_PATH", str(checkout / "deploy" / "github-action"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert job.run(only="Install") == 0, job.log
    program = job.outputs["install"]["program"]
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "of the checkout\n"
    assert job.run(only="Install", version="9.9") == 2
    assert "version: found '9.9', expected 'installed' or nothing" in job.log


def test_the_action_is_where_its_checkout_has_the_package() -> None:
    assert (Path("deploy/github-action") / ".." / ".." / "pyproject.toml").resolve() == Path("pyproject.toml").resolve()
    assert 'name = "tracegrade"' in Path("pyproject.toml").read_text()


def _package(folder: Path, prints: str) -> None:
    """A source tree of this name, with a build that needs nothing from an index."""
    (folder / "build").mkdir()
    _wheel(folder / "build", prints)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "tracegrade"\nversion = "1.0"\n'
    )
    (folder / "backend.py").write_text(
        "import pathlib, shutil\n"
        "def build_wheel(to, config_settings=None, metadata_directory=None):\n"
        "    (made,) = pathlib.Path('build').iterdir()\n"
        "    return pathlib.Path(shutil.copy(made, to)).name\n"
    )


def _wheel(folder: Path, prints: str) -> None:
    """A package of this name that prints a text."""
    version = prints if prints[0].isdigit() else "1.0"
    with zipfile.ZipFile(folder / f"tracegrade-{version}-py3-none-any.whl", "w") as wheel:
        about = f"tracegrade-{version}.dist-info"
        wheel.writestr("tracegrade.py", f"def main(): print({prints!r})\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tracegrade\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/entry_points.txt", "[console_scripts]\ntracegrade = tracegrade:main\n")
        wheel.writestr(f"{about}/RECORD", "")
