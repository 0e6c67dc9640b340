"""What pages, .ci and the tests themselves name to be run is there, and each promise is held by the default run."""

import ast
import re
import tomllib
from pathlib import Path

from build.without_parts import of_all_parts
from docs.pages import Write, steps

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
NAMING = [
    path
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / ".ci").iterdir(),
        *HERE.rglob("*.md"),
        *HERE.rglob("*.py"),
    ]
    if path != Path(__file__)
]
_COMMAND = re.compile(r"\b(?:python3?|pytest)\b[^\n`|&;]*")  # up to the end of the code span, or of the command
_UNDER_TESTS = re.compile(r"(?<![\w/.-])tests/[\w/.-]*[\w-](?:::\w+)?")
_SCRIPT = re.compile(r"(?<![\w./-])tests/system/[\w/]+/run\b(?!\.)")


@of_all_parts
def test_every_command_that_runs_something_under_tests_finds_it() -> None:
    missing = []
    found = 0
    for path in NAMING:
        text = path.read_text(encoding="utf-8")
        written = _written_by(path)
        for command in [*_COMMAND.findall(text), *_SCRIPT.findall(text)]:
            for named in _UNDER_TESTS.findall(command):
                found += 1
                if named not in written and not _is_there(named):
                    missing.append(f"{path.relative_to(ROOT)}: {named}")
    assert found > 50, "commands are not found any more"
    assert missing == []


def test_commands_for_long_files_ask_for_them() -> None:
    """pytest leaves out what is marked, also where its file is named."""
    forgotten = [
        f"{path.relative_to(ROOT)}: {command}"
        for path in NAMING
        if path.suffix != ".py"
        for command in _COMMAND.findall(path.read_text(encoding="utf-8"))
        if command.startswith("pytest") and " -m " not in command
        for named in _UNDER_TESTS.findall(command)
        if named.endswith(".py") and (ROOT / named).is_file() and _is_long(ROOT / named)
    ]
    assert forgotten == []


def test_every_part_of_the_long_run_and_every_task_that_is_named_exists() -> None:
    tasks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["poe"]["tasks"]
    parts = re.findall(r"^(\w+)\(\) \{", (ROOT / ".ci" / "long").read_text(), re.MULTILINE)
    missing = [
        f"{path.relative_to(ROOT)}: {command} {name}"
        for path in NAMING
        for command, name in re.findall(r"[`'](\.ci/long|poe) (\w+)", path.read_text(encoding="utf-8"))
        if name not in (parts if command == ".ci/long" else tasks)
    ]
    assert missing == []


def test_every_promise_has_a_test_that_the_default_run_does_not_leave_out() -> None:
    promises = re.split(r"\n(?=\d+\. \*\*)", (ROOT / "docs" / "internals" / "promises.md").read_text(encoding="utf-8"))
    only_long = [
        promise[:60]
        for promise in promises[1:]
        if all(_leaves_out(file, test) for file, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", promise))
    ]
    assert len(promises) == 13
    assert only_long == []


def _leaves_out(file: str, test: str) -> bool:
    """Whether the default run leaves out `test`, or all of `file`."""
    if _is_long(ROOT / file) or not test:
        return _is_long(ROOT / file)
    (function,) = [
        node
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == test
    ]
    return any(ast.unparse(decorator) == "pytest.mark.long" for decorator in function.decorator_list)


def _written_by(path: Path) -> set[str]:
    """The files that a page has its reader write before its commands."""
    if not path.is_relative_to(ROOT / "docs" / "extend"):
        return set()
    return {step.path for step in steps(f"extend/{path.name}") if isinstance(step, Write)}


def _is_there(named: str) -> bool:
    file, _, test = named.partition("::")
    return (ROOT / file).exists() and (not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"))


def _is_long(file: Path) -> bool:
    return (
        re.search(r"^pytestmark = \[?\s*pytest\.mark\.long\b", file.read_text(encoding="utf-8"), re.MULTILINE)
        is not None
    )
