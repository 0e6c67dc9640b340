"""What must hold for every rule that ships with the package."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml
from click.testing import CliRunner
from yamlcore import CoreLoader

from build import each
from tracegrade.assemble.settings import TracesSettings
from tracegrade.cli import main
from tracegrade.pipeline.rule_tests import run_tests
from tracegrade.rule.builtin import DEFAULT_RULES
from tracegrade.rule.load import builtin_rules, load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.schema import rule_schema

FOLDER = builtin_rules()


@cache
def all_rules() -> RuleSet:
    return load_rules([FOLDER])


@cache
def fits() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(rule_schema())


def paths() -> list[Path]:
    return [Path(all_rules().paths[rule.id]) for rule in all_rules().rules]


@each("rule", lambda: all_rules().rules, ids=lambda rule: rule.id)
def test_its_own_tests_hold(rule: Rule) -> None:
    results = list(run_tests(rule, Path(all_rules().paths[rule.id]), TracesSettings()))
    assert [result.failure for result in results if result.failure] == []


@each("path", paths, ids=lambda path: path.parent.name)
def test_its_folder_is_called_like_its_id(path: Path) -> None:
    assert load_rules([path]).rules[0].id == path.parent.name


@each("path", paths, ids=lambda path: path.parent.name)
def test_every_trace_beside_it_is_used_by_a_test(path: Path) -> None:
    used = {entry["trace"] for entry in plain(path.with_name("tests.yaml"))}
    assert {trace.name for trace in (path.parent / "traces").iterdir()} == used


@each("rule", lambda: all_rules().rules, ids=lambda rule: rule.id)
def test_it_says_what_it_is(rule: Rule) -> None:
    assert rule.title
    assert rule.description
    assert rule.false_positives


@each("path", paths, ids=lambda path: path.parent.name)
def test_it_fits_the_schema_that_editors_use(path: Path) -> None:
    fits().validate(plain(path))
    first = path.read_text().splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    assert (path.parent / first.partition("=")[2]).resolve() == (FOLDER / "schema.json").resolve()


def test_the_default_rules_are_stable_and_of_no_service() -> None:
    default = load_rules(["builtin:default"]).rules
    assert {rule.id for rule in default} == DEFAULT_RULES
    assert {rule.status for rule in default} == {"stable"}
    assert all(rule.match.service is None for rule in default)


def test_all_a_theme_and_a_rule_are_found_by_name() -> None:
    assert len(load_rules(["builtin:all"])) == len(all_rules()) >= 40
    assert {rule.id for rule in load_rules(["builtin:loops"]).rules} > {"same-call-repeated"}
    assert [rule.id for rule in load_rules(["builtin:same-call-repeated"]).rules] == ["same-call-repeated"]


def test_the_schema_in_the_folder_is_the_one_of_the_code() -> None:
    assert json.loads((FOLDER / "schema.json").read_text()) == rule_schema(), (
        "out of date: tracegrade rules schema > rules/schema.json"
    )


def test_the_index_in_the_readme_is_the_one_of_the_rules() -> None:
    readme = (FOLDER / "README.md").read_text()
    _, _, rest = readme.partition("<!-- made by: tracegrade rules list --format markdown rules -->\n")
    index, _, _ = rest.partition("<!-- end -->")
    assert CliRunner().invoke(main, ["rules", "list", "--format", "markdown", str(FOLDER)]).stdout == index


def plain(path: Path) -> Any:
    return yaml.load(path.read_text(), Loader=CoreLoader)


@each("path", paths, ids=lambda path: path.parent.name)
def test_its_traces_are_what_instrumentations_sent_or_say_that_they_are_not(path: Path) -> None:
    for trace in (path.parent / "traces").iterdir():
        text = trace.read_text(encoding="utf-8")
        scopes = {part["scope"]["name"] for group in json.loads(text)["resourceSpans"] for part in group["scopeSpans"]}
        known = {"pydantic-ai", "openinference.instrumentation.openai_agents", "written.by.hand"}
        assert scopes <= known, trace.name
        assert "stacktrace" not in text  # they name the folders of whoever ran the agent


@each("path", paths, ids=lambda path: path.parent.name)
def test_it_fails_and_passes_on_traces_of_two_instrumentations(path: Path) -> None:
    """Of experimental rules, too: what one framework's spans alone show may be a matter of how that one writes."""
    scopes: dict[bool, set[str]] = {True: set(), False: set()}
    for test in plain(path.parent / "tests.yaml"):
        if "known_gap" not in test:
            traces = test["trace"] if isinstance(test["trace"], list) else [test["trace"]]
            fails = isinstance(test["expect"], dict) and "fail" in test["expect"].values()
            for trace in traces:
                sent = json.loads((path.parent / "traces" / trace).read_text(encoding="utf-8"))
                scopes[fails] |= {
                    part["scope"]["name"] for group in sent["resourceSpans"] for part in group["scopeSpans"]
                }
    for found in scopes.values():
        assert len(found - {"written.by.hand"}) == 2
