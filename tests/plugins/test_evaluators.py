"""Evaluators that installed packages add: each test installs one into a folder of its own.

What comes into force does so for the rest of a process: such tests start an interpreter.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from build import each, packages
from build.packages import run, run_commands
from tracegrade.evaluate.evaluator import _REMOVED, Evaluator
from tracegrade.model.errors import TraceGradeError
from tracegrade.plugins.installed import load_plugins
from tracegrade.rule.load import builtin_rules

PAGE = (Path(__file__).parents[2] / "docs" / "extend" / "evaluator.md").read_text(encoding="utf-8")
WHOLE_PAGE = PAGE
(WITH_UNKNOWN,) = re.findall(
    r"```python\n(.*?)```", PAGE[PAGE.index("## When something cannot") : PAGE.index("## As a package")], re.DOTALL
)
PAGE = PAGE[PAGE.index("## As a package") : PAGE.index("## In a file beside the rule")]
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(PROJECT,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
(RULE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

CALLS = [
    {"name": "quote", "args": {"currency": "EUR"}},
    {"name": "convert", "args": {"currency": "USD"}},
    {"name": "pay", "args": {"currency": "EUR"}},
]


def install(folder: Path, source: str = EXAMPLE, entry_point: str = "", version: str = "2.0") -> None:
    """A package with one module, acme_evaluators, and the example's entry point unless another is given."""
    ((group, members),) = tomllib.loads(PROJECT)["project"]["entry-points"].items()
    value = entry_point or " = ".join(*members.items())
    packages.install(folder, "acme-evaluators", version, source, group, value)


def evaluate(folder: Path, *cases: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines that cases give, in their order; each changes or adds to the same."""
    usual = {"evaluator": "same-argument", "criteria": {"argument": "currency"}, "calls": CALLS}
    batch = "".join(json.dumps(usual | case) + "\n" for case in cases)
    done = run(folder, "-m", "tracegrade", "evaluate", "--batch", "-", stdin=batch)
    assert done.returncode in (0, 1), done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(cases)
    return lines


def test_the_example_judges(tmp_path: Path) -> None:
    install(tmp_path)
    found, absent, misspelt = evaluate(
        tmp_path, {"threshold": 0.6}, {"criteria": {"argument": "iban"}}, {"criteria": {"argumnt": "currency"}}
    )
    assert (found["outcome"], found["score"]) == ("pass", pytest.approx(2 / 3))
    assert found["details"] == {"values": ["EUR", "USD", "EUR"]}
    assert absent["outcome"] == "not_evaluable"
    error = misspelt["error"]
    assert error["type"] == "invalid_criteria"
    assert "unknown key 'argumnt'; did you mean 'argument'?" in error["message"]


def test_a_rule_names_it_and_the_schema_and_the_list_know_it(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / "x.rule.yaml").write_text(f"# yaml-language-server\nid: mixed-currencies\n{RULE}")
    checked, explained, listed, schema = run_commands(
        tmp_path,
        "rules check x.rule.yaml",
        "rules explain mixed-currencies x.rule.yaml",
        "rules list --evaluators --format json",
        "rules schema",
    )
    assert "1 rule, nothing wrong" in checked.stdout
    assert "same-argument: Do all calls have the same value of an argument?" in explained.stdout
    assert "a score from 0.9 on passes" in " ".join(explained.stdout.split())
    assert json.loads(listed.stdout.splitlines()[-1]) == {
        "evaluator": "same-argument",
        "judges": "Do all calls have the same value of an argument?",
        "fields": ["evaluator", "name", "threshold", "matchers", "argument", "case_sensitive"],
    }
    (shape,) = [
        shape
        for shape in json.loads(schema.stdout)["properties"]["evaluate"]["items"]["oneOf"]
        if shape["properties"]["evaluator"].get("const") == "same-argument"
    ]
    assert shape["required"] == ["evaluator", "argument"]


def test_a_trace_is_judged_by_it(tmp_path: Path) -> None:
    install(tmp_path)
    program = """
from build.traces import trace
from tracegrade import load_plugins
from tracegrade.judge import judge
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
load_plugins()
rule = Rule.model_validate({"id": "mixed", "evaluate": [{"evaluator": "same-argument", "argument": "currency"}]})
for currencies in (["EUR", "USD"], ["EUR", "EUR"], ["EUR", ""]):
    spans = [
        {"id": n, "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay",
         **({"gen_ai.tool.call.arguments": '{"currency": "%s"}' % currency} if currency else {})}}
        for n, currency in enumerate(currencies, 1)
    ]
    (found,) = judge(trace(spans), RuleSet([rule])).evaluations
    print(found.evaluator, found.score, found.outcome)
"""
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n" + program
    done = run(tmp_path, "-c", program)
    assert done.stdout.splitlines() == [
        "same-argument 0.5 fail",
        "same-argument 1.0 pass",
        "same-argument None not_evaluable",
    ], done.stderr


def test_the_example_that_asks_decides_where_what_is_unknown_does_not_matter(tmp_path: Path) -> None:
    install(tmp_path, WITH_UNKNOWN, "same-value = acme_evaluators:EVALUATOR")
    program = """
from build.traces import trace
from tracegrade import load_plugins
from tracegrade.judge import judge
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
load_plugins()
spans = [
    {"id": n, "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay",
     **({"gen_ai.tool.call.arguments": '{"currency": "%s"}' % currency} if currency else {}), **mark}}
    for n, (currency, mark) in enumerate(CALLS, 1)
]
item = {"evaluator": "same-value", "argument": "currency", "value": "EUR"}
for threshold in (0.3, 0.5, 0.9):
    rule = Rule.model_validate({"id": "euros", "evaluate": [{**item, "threshold": threshold}]})
    (found,) = judge(trace(spans), RuleSet([rule])).evaluations
    print(found.score, found.outcome)
print(found.explanation)
"""
    for calls, why in (
        (
            [("EUR", {}), ("USD", {}), ("", {})],
            "the arguments of a call were not recorded (pay, span 0000000000000003)",
        ),
        (
            [("EUR", {}), ("USD", {}), ("[redacted]", {"tracegrade.redacted": "{}"})],
            "the arguments of a call were redacted (pay, span 0000000000000003)",
        ),
    ):
        beginning = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\nCALLS = {calls!r}\n"
        done = run(tmp_path, "-c", beginning + program)
        *decided, explanation = done.stdout.splitlines() or [done.stderr]
        assert decided == [f"{1 / 3} pass", "None not_evaluable", f"{1 / 3} fail"], done.stderr
        assert explanation == f"1 of 3 calls were given it. The score may be up to 0.6667: {why}."


@pytest.mark.parametrize(
    ("line", "explanation"),
    [
        ('raise KeyError("amount")', "KeyError: 'amount' (acme_evaluators.py:{})"),
        (
            'json.loads("{")',
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1) (acme_evaluators.py:{})",
        ),
        ("return Score(2.0)", "ScoreError: same-argument: score: expected a number from 0 to 1, or None, found 2.0"),
    ],
)
def test_an_error_names_the_line_of_the_package(tmp_path: Path, line: str, explanation: str) -> None:
    begin = "    read = [call"
    assert begin in EXAMPLE
    source = "import json\n" + EXAMPLE.replace(begin, f"    {line}\n{begin}")
    install(tmp_path, source)
    (tmp_path / "x.rule.yaml").write_text(f"id: mixed-currencies\n{RULE}")
    (tmp_path / "x.tests.yaml").write_text("- {description: a, trace: a.json, expect: {same-argument: pass}}\n")
    (tmp_path / "traces").mkdir()
    shutil.copy(builtin_rules() / "demo/order-not-confirmed/traces/order_confirmed.json", tmp_path / "traces/a.json")
    (tested,) = run_commands(tmp_path, "rules test x.rule.yaml --format json")
    message = json.loads(tested.stdout.splitlines()[0])["message"]
    number = source.splitlines().index(f"    {line}") + 1
    assert message.endswith(explanation.format(number))


def test_the_version_is_part_of_the_hash_of_the_rules_that_name_it_and_of_no_other(tmp_path: Path) -> None:
    program = """
from tracegrade import load_plugins
from tracegrade.rule.rule import Rule
load_plugins()
item = {"evaluator": "same-argument", "argument": "currency"}
own = {"evaluator": "tool-call-order", "tool_calls_order": ["a"]}
one = {"id": "one", "evaluate": [own]}
two = {"id": "two", "evaluate": [item]}
three = {"id": "three", "cases": [{"id": "x", "match": {"prompt": "x"}, **item}]}
print([Rule.model_validate(rule).hash for rule in (one, two, three)])
"""
    hashes = []
    for version in ("2.0", "2.1"):
        install(tmp_path / version, version=version)
        done = run(tmp_path / version, "-c", program)
        assert done.returncode == 0, done.stderr
        hashes.append(json.loads(done.stdout.replace("'", '"')))
    first, second = hashes
    assert [mine == other for mine, other in zip(first, second, strict=True)] == [True, False, False]


PAIRING = "__import__('tracegrade.evaluate.evaluator', fromlist=['Pairing']).Pairing"
GIVEN = {
    # what a score function gives: a part of what is told
    "0.5": "ScoreError",
    "Score(1.5)": "score: expected a number from 0 to 1, or None, found 1.5",
    "Score(float('nan'))": "found nan",
    "Score(1.0, {'a': {1}})": "expected details of JSON values",
    "Score(1.0, {'a': '\\ud800'})": "expected details of JSON values",
    "Score(1.0, {'a': 'x' * 70000})": "expected at most 65536 characters of details, found 700",
    "Score(1.0, {}, None)": "explanation: expected a text, found NoneType",
    "Score(1.0, [])": "details: expected an object, found list",
    "Score(1.0, pairing=[0])": "pairing: expected a tracegrade.model.evaluation.Pairing or None, found list",
    f"Score(1.0, pairing={PAIRING}([0, -1]))": "pairing: expected positions of calls and None",
    f"Score(1.0, pairing={PAIRING}([0], ['a']))": "pairing: expected positions of calls and None",
    "1 / 0": "division by zero",
}
KEPT = f"Score(True, {{'a': (1, {{2: 'x'}})}}, 'Said.', pairing={PAIRING}((0, None)))"


def test_a_score_is_kept_as_json_says_it_and_what_is_none_is_an_error_of_that_evaluation(tmp_path: Path) -> None:
    """A score function that gives what its criteria say."""
    before = EXAMPLE.partition("    read = [call")[0]
    install(tmp_path, before + "    return eval(criteria.argument)\n\n\n" + EXAMPLE[EXAMPLE.index("EVALUATOR = ") :])
    lines = evaluate(tmp_path, *({"criteria": {"argument": result}} for result in (KEPT, *GIVEN)))
    assert (lines[0]["score"], lines[0]["details"]) == (1.0, {"a": [1, {"2": "x"}]})
    for told, found in zip(GIVEN.values(), lines[1:], strict=True):
        assert (found["outcome"], found["score"]) == ("error", None)
        assert told in f"{found['error']['type']}: {found['error']['message']}"


def _changed(old: str, new: str) -> str:
    assert old in EXAMPLE
    return EXAMPLE.replace(old, new)


BROKEN = [
    pytest.param("import nowhere", "", "cannot be imported: ModuleNotFoundError: ", id="import"),
    pytest.param(EXAMPLE, "same-argument = acme_evaluators:NONE", "cannot be imported: AttributeError", id="no member"),
    pytest.param("EVALUATOR = len", "", "expected a tracegrade.evaluate.evaluator.Evaluator, found", id="kind"),
    pytest.param(_changed('name="same-', 'name="other-'), "", "found the name 'other-argument'", id="other name"),
    pytest.param(
        _changed('"same-argument"', '"Same"'),
        "Same = acme_evaluators:EVALUATOR",
        "name: expected lower-case words joined by '-', found 'Same'",
        id="form of the name",
    ),
    pytest.param(
        _changed('"same-argument"', '"budget"'),
        "budget = acme_evaluators:EVALUATOR",
        "the name 'budget' is taken by an evaluator that TraceGrade has",
        id="name of ours",
    ),
    pytest.param(
        EXAMPLE,
        "same-argument = acme_evaluators:EVALUATOR\n[tracegrade.evaluators]\nsame_argument = acme_evaluators:EVALUATOR",
        "expected an evaluator of the entry point's name",
        id="second entry point",
    ),
    pytest.param(_changed("Criteria=Criteria", "Criteria=dict"), "", "Criteria: expected a class derived", id="model"),
    pytest.param(_changed("    argument: str", "    threshold: str"), "", "is a field of every item", id="item field"),
    pytest.param(
        _changed("    case_sensitive:", "    argument:"), "", "is a field of both Criteria and Settings", id="both"
    ),
    pytest.param(
        _changed("Settings=Settings", "Settings=Criteria"),
        "",
        "Criteria and Settings are one class, Criteria; expected a class for each",
        id="one class",
    ),
    pytest.param(
        _changed("case_sensitive: bool = True", "case_sensitive: bool"),
        "",
        "expected a default for every setting, found none for 'case_sensitive'",
        id="setting without default",
    ),
    pytest.param(_changed('({"arguments"})', '({"args"})'), "", "reads: expected a frozenset of arguments", id="reads"),
    pytest.param(
        _changed("score=score", "score=score, knows_unknown=True"),
        "",
        "knows_unknown is no longer declared; docs/extend/evaluator.md says what to do in its place",
        id="no longer declared",
    ),
    pytest.param(
        _changed("score=score", "score=score, attributes='a.b'"),
        "",
        "attributes: expected a frozenset of non-empty texts, found 'a.b'",
        id="attributes",
    ),
    pytest.param(_changed("score=score", "score=None"), "", "score: expected a function, found None", id="function"),
    pytest.param(_changed("summary=", "summary='' and "), "", "summary: expected a sentence", id="summary"),
]


@each("removed", _REMOVED)
def test_the_page_says_what_stands_in_place_of_what_is_no_longer_declared(removed: str) -> None:
    with pytest.raises(TypeError, match=f"{removed} is no longer declared; docs/extend/evaluator.md says"):
        Evaluator(**{removed: True})
    assert f"`{removed}`" in WHOLE_PAGE


@pytest.mark.parametrize(("source", "entry_point", "found"), BROKEN)
def test_a_package_that_cannot_be_used_is_named(tmp_path: Path, source: str, entry_point: str, found: str) -> None:
    install(tmp_path, source, entry_point)
    load_plugins.cache_clear()
    with packages.found_here(tmp_path), pytest.raises(TraceGradeError) as raised:
        load_plugins()
    assert "(tracegrade.evaluators) of acme-evaluators 2.0: " in str(raised.value)
    assert found in str(raised.value)
    assert str(raised.value).endswith("; fix or uninstall acme-evaluators")


def test_no_command_that_judges_starts_with_one(tmp_path: Path) -> None:
    install(tmp_path, "import nowhere")
    for ran in run_commands(tmp_path, "serve", "config check", "rules schema", "rules check builtin:demo"):
        assert (ran.exit_code, ran.stdout) == (2, "")
        *_, error = ran.stderr.splitlines()  # serve says first which version it is
        assert error.startswith("Error: entry point same-argument = acme_evaluators:EVALUATOR")
        assert error.endswith("; fix or uninstall acme-evaluators")


def test_packages_are_not_looked_for_until_somebody_asks(tmp_path: Path) -> None:
    install(tmp_path, "import nowhere")
    program = "import sys, tracegrade, tracegrade.evaluate\nprint('importlib.metadata' in sys.modules)\n"
    done = run(tmp_path, "-c", program + "import tracegrade.evaluate.registry")
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


@pytest.mark.long
def test_pip_installs_the_example(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling, which builds the example's wheel, is not installed")
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    (source / "acme_evaluators.py").write_text(EXAMPLE)
    (source / "pyproject.toml").write_text(PROJECT)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", "--target", str(site)]
    done = subprocess.run([*pip, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = evaluate(site, {})
    assert found["score"] == pytest.approx(2 / 3)
