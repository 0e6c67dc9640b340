"""Recipes as `tracegrade rules new --recipe` writes them: the rule, and its two runs in a short form for people."""

from collections.abc import Sequence

from generator.cases import run_text
from tracegrade.history.new_rules import recipe as recipes
from tracegrade.history.new_rules.made_run import Step

_SAID = ("prompt", "answer", "turn")


def recipe(name: str) -> str:
    """The command, the rule that it writes (without description and status), and what the rule makes of two runs."""
    each = recipes.recipe(name)
    rule = f"id: {each.id}\ntitle: {each.title}\nlevel: {each.level}\n{each.body}"
    runs = [f"- {key}: {steps_text(run.run)}" for key, run in (("fails", each.fails), ("passes", each.passes))]
    return "\n".join(
        [
            f"```sh\ntracegrade rules new help-desk/{each.id} --recipe {name}\n```",
            "",
            f"```{{code-block}} yaml\n:caption: {each.id}/rule.yaml\n\n{rule}```",
            "",
            *runs,
        ]
    )


def steps_text(steps: Sequence[Step]) -> str:
    """A run as people write it, an arrow between each two steps."""
    return " → ".join(
        next((f"{key}: {step[key]}" for key in _SAID if key in step), "") or run_text([{"name": step["tool"], **step}])
        for step in steps
    )
