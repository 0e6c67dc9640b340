"""Which rules a command is about: paths on the command line, rules named by their id or their place."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tracegrade.rule.reading import RuleReading
    from tracegrade.rule.rule import Rule
    from tracegrade.rule.rule_set import RuleSet

paths_argument = click.argument("paths", nargs=-1, metavar="[PATH...]")


def reading_with(settings: "RuleReading | None" = None) -> "RuleReading":
    """How rules are read: by the options of 'tracegrade rules', and else by `settings`."""
    from tracegrade.rule.reading import RuleReading

    options = click.get_current_context().find_object(RuleReading) or RuleReading()
    return options.beside(settings)


def rules_at(paths: Sequence[str], settings: "RuleReading | None" = None, in_force: Sequence[str] = ()) -> "RuleSet":
    """The rules at `paths`; without any, those of ./rules if there is such a folder, else those `in_force`.

    Where a settings file that names those is not given either, the ready-made ones.
    """
    from tracegrade.rule.load import builtin_rules

    local = Path("rules")
    return reading_with(settings).load(paths or ([local] if local.is_dir() else in_force or [builtin_rules()]))


def rules_with_paths(
    paths: Sequence[str], settings: "RuleReading | None" = None, in_force: Sequence[str] = ()
) -> "list[tuple[Rule, str]]":
    """The rules of `rules_at`, each with the path of its file."""
    rule_set = rules_at(paths, settings, in_force)
    return [(rule, rule_set.paths[rule.id]) for rule in rule_set.rules]


def named_rules(name: str, paths: Sequence[str], settings: "RuleReading | None" = None) -> "tuple[RuleSet, list[Rule]]":
    """The rules of an id, or all rules at a place."""
    is_at_place = not paths and is_place(name)
    rule_set = rules_at([name] if is_at_place else paths, settings)
    return rule_set, list(rule_set.rules) if is_at_place else rules_of_id(rule_set, name)


def is_place(name: str) -> bool:
    """Whether `name` is a path to rules, and not the id of a rule."""
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    return name.startswith("builtin:") or is_path or Path(name).exists()


def rules_of_id(rule_set: "RuleSet", name: str) -> "list[Rule]":
    """The rules of that id; one that is not there is a usage error, which names a near one."""
    from tracegrade.document.problem import did_you_mean

    chosen = [rule for rule in rule_set.rules if rule.id == name]
    if not chosen:
        hint = did_you_mean(name, [known.id for known in rule_set.rules])
        raise click.UsageError(f"no rule {name!r} here{hint}")
    return chosen
