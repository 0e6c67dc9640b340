"""Every snippet of the documentation is well formed, and every command in it is one that exists with these options.

Beyond that, tests run what pages show: the tutorial, the recipes, the examples of ``docs/extend`` and of the reference.
A block of the language ``text`` is nothing to be run; ``<!-- not checked: WHY -->`` above any other says why it is not.
"""

import ast
import json
import re
import shlex
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import jsonschema_rs
import pytest
import yaml
from pydantic import ValidationError
from yamlcore import CoreLoader

from build import each
from tracegrade.cli import main
from tracegrade.evaluate.constraints.forms import FORMS
from tracegrade.rule.rule import Rule
from tracegrade.rule.schema import rule_schema
from tracegrade.store.open import open_store

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?P<why><!-- not checked: .+ -->\n+)?^ *```(?P<language>[^\n]*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE
)
# Nothing to run, a change to a file shown before, or what a test of its own runs where Node is.
_PLAIN = {"text", "diff", "javascript"}


def _blocks() -> Iterator[tuple[str, str, str]]:
    for path in PAGES:
        for number, found in enumerate(_BLOCK.finditer(path.read_text(encoding="utf-8")), 1):
            language, text = found["language"], found["text"]
            if directive := re.fullmatch(r"\{code-block\} (\w+)", language):
                language, text = directive[1], text.partition("\n\n")[2]
            if not found["why"] and not language.startswith("{"):
                yield f"{path.relative_to(ROOT)}, block {number}", language, text


@each(("where", "language", "text"), _blocks)
def test_a_snippet_is_well_formed(where: str, language: str, text: str) -> None:
    assert language in _PLAIN or language in CHECKS, f"{where}: a language that nobody checks: {language!r}"
    if language in CHECKS:
        CHECKS[language](text)


def _check_python(text: str) -> None:
    ast.parse(text)


def _check_json(text: str) -> None:
    json.loads(text)


def _check_toml(text: str) -> None:
    tomllib.loads(text)


def _check_yaml(text: str) -> None:
    found = yaml.load(text, CoreLoader)
    if isinstance(found, list) and all(isinstance(item, dict) and _WORDS & item.keys() for item in found):
        found = {"evaluate": [{"evaluator": "constraints", "constraints": found}]}
    if isinstance(found, dict) and {"evaluate", "cases", "alert", "then"} & set(found):
        rule = {"id": "shown", **({} if {"evaluate", "cases", "then"} & set(found) else _ANY), **found}
        Rule.model_validate(rule)
        _schema().validate(rule)


_ANY = {"evaluate": [{"evaluator": "loop-repetition", "name": "order"}]}
_WORDS = {way[0] for form in FORMS for way in form.ways()}


@cache
def _schema() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(rule_schema())


def _check_console(text: str) -> None:
    # A line that ends with \ goes on; the lines that a command printed have no $ in front.
    joined = text.replace("\\\n", " ")
    for line in re.findall(r"^\$ (.+)$", joined, re.MULTILINE):
        _check_line(line)


def _check_sh(text: str) -> None:
    for line in text.replace("\\\n", " ").splitlines():
        _check_line(line)


def _check_line(line: str) -> None:
    for command in re.split(r"&&|\|\||[|;]", line):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue  # quotes around what separates commands: not one of ours
        if words and Path(words[0]).name == "tracegrade":
            check_command(words[1:])


def check_command(words: list[str]) -> None:
    """Fail unless our command line has this command with these options."""
    command: click.Command = main
    options: set[str] = set()
    for word in words:
        if isinstance(command, click.Group) and not word.startswith("-"):
            assert word in command.commands or command.get_command(click.Context(command), word), f"no command {word!r}"
            found = command.get_command(click.Context(command), word)
            assert found is not None
            command = found
            options = {
                option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
            }
        elif re.match(r"--?[a-z]", word):
            name = word.partition("=")[0]
            assert name in {*options, "--help", "-h", "--version"}, f"{command.name} has no option {name}"


def _check_sql(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = open_store(f"sqlite:///{folder}/tracegrade.db")
        with engine.connect() as connection:
            connection.exec_driver_sql(text)
        engine.dispose()


CHECKS = {
    "sql": _check_sql,
    "python": _check_python,
    "json": _check_json,
    "toml": _check_toml,
    "yaml": _check_yaml,
    "console": _check_console,
    "sh": _check_sh,
}


def _inline() -> list[tuple[str, str]]:
    found = set()
    for path in PAGES:
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for code in re.findall(r"`(tracegrade [a-z][^`\n]*)`", text):
            found.add((str(path.relative_to(ROOT)), code))
    return sorted(found)


@each(("page", "code"), _inline)
def test_a_command_in_a_sentence_exists(page: str, code: str) -> None:
    check_command(shlex.split(code.replace("'", ""))[1:])


def test_what_is_wrong_is_seen() -> None:
    with pytest.raises(AssertionError):
        check_command(["rules", "chek"])
    with pytest.raises(AssertionError):
        check_command(["replay", "--fail-bellow", "1"])
    with pytest.raises(ValidationError):
        _check_yaml("evaluate: [{evaluator: tool-call-ordr}]")
    with pytest.raises(ValidationError):
        _check_yaml("- {before: refund, come: approve}")
