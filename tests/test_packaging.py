"""What is inside the package that people install."""

import ast
import importlib.metadata
import tomllib
from itertools import chain
from pathlib import Path

import tracegrade
from tracegrade.match.load import builtin_rules

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_the_projects() -> None:
    assert importlib.metadata.version("tracegrade") == PROJECT["project"]["version"]


def test_types_are_published() -> None:
    assert Path(tracegrade.__file__).with_name("py.typed").exists()


def test_ready_made_rules_come_with_their_tests_and_traces() -> None:
    for rule in builtin_rules().rglob("rule.yaml"):
        assert rule.with_name("tests.yaml").exists()
        assert list((rule.parent / "traces").iterdir())


def test_the_wheel_takes_the_package_and_the_rules_and_nothing_else() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["only-include"] == ["processor/tracegrade", "rules"]
    assert wheel["sources"] == {"processor/tracegrade": "tracegrade", "rules": "tracegrade/rules"}


def test_the_source_distribution_takes_all_that_its_tests_read() -> None:
    included = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"])
    assert {"processor", "rules", "tests", "deploy"} <= included


def test_no_line_of_the_dependencies_names_a_place() -> None:
    project = PROJECT["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    assert not [line for line in lines if "://" in line or "@" in line]


def _compiled() -> list[Path]:
    tree = ast.parse((ROOT / "deploy" / "compiled_build.py").read_text())
    patterns: tuple[str, ...] = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED"
    )
    found = [list((ROOT / "processor").glob(pattern)) for pattern in patterns]
    assert all(found)  # no pattern for what was moved
    return list(chain.from_iterable(found))


def test_no_compiled_module_binds_one_name_to_two_kinds_of_errors() -> None:
    """mypyc takes the second for one of the first, and raises a TypeError instead."""
    for path in _compiled():
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                handlers = [node for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name]
                kinds = {(handler.name, ast.dump(handler.type)) for handler in handlers if handler.type}
                assert len(kinds) == len({name for name, _ in kinds}), f"{path}:{function.lineno}"


def test_no_compiled_module_defines_what_pydantic_reads() -> None:
    """mypyc keeps no annotations."""
    for path in _compiled():
        imported = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        names = {alias.name for node in imported for alias in node.names} | {node.module for node in imported}
        assert names.isdisjoint({"pydantic", "BaseModel", "FileModel", "ParameterModel"}), path


def test_no_compiled_class_is_an_abc() -> None:
    """A compiled ABC and its subclasses share what `isinstance` remembers: one's instances are taken for another's."""
    for path in _compiled():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert {"ABC", "ABCMeta"}.isdisjoint(map(ast.unparse, node.bases)), f"{path}:{node.lineno}"


def test_the_page_finds_its_templates_and_static_files_beside_its_code() -> None:
    web = Path(tracegrade.__file__).with_name("web")
    assert {path.suffix for path in (web / "templates").iterdir()} == {".html"}
    assert {path.suffix for path in (web / "static").iterdir()} == {".css", ".js", ".svg"}
