"""Recipes: whole rules for what people need most, each with a run that fails it and one that passes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from tracegrade.document.problem import did_you_mean
from tracegrade.document.yaml_text import parse
from tracegrade.history.new_rules.made_run import Step
from tracegrade.model.errors import TraceGradeError

_FILE = Path(__file__).with_name("recipes.yaml")


@dataclass(frozen=True, slots=True)
class RecipeRun:
    """A made-up run: what it shows, and its steps as `recipes.yaml` describes them."""

    says: str
    run: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A rule for a need; `body` is its YAML from below the level on."""

    need: str
    id: str
    title: str
    description: str
    level: str
    body: str
    fails: RecipeRun
    passes: RecipeRun

    @property
    def evaluator(self) -> str:
        """The name of the one evaluator that the rule uses."""
        return self.body.partition("evaluator: ")[2].split()[0]


@cache
def recipes() -> dict[str, Recipe]:
    """All recipes by name, in the order in which people read them."""
    document = parse(_FILE.read_text(encoding="utf-8"), str(_FILE))
    return TypeAdapter(dict[str, Recipe]).validate_python(document.value)


def recipe(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        TraceGradeError: there is none.
    """
    if (found := recipes().get(name)) is None:
        near = did_you_mean(name, recipes())
        raise TraceGradeError(f"--recipe: no recipe {name!r}{near}; 'tracegrade rules new --recipes' lists all")
    return found
