"""The recipes: each is written, checked and tested by the commands, and docs/guides/recipes.md shows all of them."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from docs.pages import ROOT, Write, steps
from tracegrade.cli import main
from tracegrade.history.new_rules.recipe import recipes

PAGE = ROOT / "docs/guides/recipes.md"
SHOWN = {step.path: step.text for step in steps("guides/recipes.md") if isinstance(step, Write)}


def _rules(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rules", *arguments])


@pytest.mark.parametrize("name", recipes())
def test_what_a_recipe_writes_has_nothing_wrong_and_judges_its_runs_as_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = recipes()[name]
    made = _rules("new", f"help-desk/{recipe.id}", "--recipe", name)
    assert made.exit_code == 0, made.output
    assert "2 passed, 0 failed" in made.output
    checked = _rules("check", "--strict", "rules")
    assert checked.exit_code == 0, checked.output
    written = yaml.safe_load((tmp_path / f"rules/help-desk/{recipe.id}/rule.yaml").read_text())
    assert written.pop("description")
    assert written.pop("status") == "experimental"
    assert yaml.safe_load(SHOWN[f"{recipe.id}/rule.yaml"]) == written


def test_the_page_shows_every_recipe_under_its_need() -> None:
    headings = re.findall("^## (.+)$", PAGE.read_text(), re.MULTILINE)
    assert headings == [*(recipe.need for recipe in recipes().values()), "Try one on your own traffic"]
    assert SHOWN.keys() == {f"{recipe.id}/rule.yaml" for recipe in recipes().values()}


def test_the_recipes_are_listed_without_a_rule_to_write() -> None:
    listed = _rules("new", "--recipes")
    assert listed.exit_code == 0
    for name, recipe in recipes().items():
        assert re.search(rf"^ {name} +{re.escape(recipe.need)}", listed.stdout, re.MULTILINE)


def test_an_unknown_recipe_names_a_near_one_and_writes_nothing(tmp_path: Path) -> None:
    refused = _rules("new", "a/b", "--in", str(tmp_path), "--recipe", "nver")
    assert (refused.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "no recipe 'nver'; did you mean 'never'?" in refused.stderr


def test_a_recipe_and_a_trace_exclude_each_other(tmp_path: Path) -> None:
    refused = _rules("new", "a/b", "--in", str(tmp_path), "--recipe", "never", "--from-trace", "ab" * 16)
    assert (refused.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "--recipe and --from-trace exclude each other" in refused.stderr
