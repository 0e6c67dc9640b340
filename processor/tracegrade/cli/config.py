"""``tracegrade config``: settings checked, shown and described."""

from pathlib import Path

import click

from tracegrade.cli.output import json_text, reports_errors

_path = click.argument("path", type=click.Path(path_type=Path, dir_okay=False), required=False)


@click.group()
def command() -> None:
    """Check and show settings."""


@command.command()
@_path
@reports_errors
def check(path: Path | None) -> None:
    """Check a settings file and the rules it names; silent errors are none: exit 0 or every mistake with its line."""
    from tracegrade.config import load_config
    from tracegrade.match.load import load_rules

    config = load_config(path)
    rule_set = load_rules(list(config.rules.paths))
    click.echo(f"{path or 'defaults'}: fine, {len(rule_set)} rules, {len(config.exporters)} exporters")


@command.command()
@_path
@reports_errors
def show(path: Path | None) -> None:
    """Print the settings in force, defaults filled in, secrets masked, as YAML."""
    import yaml

    from tracegrade.config import load_config

    click.echo(yaml.safe_dump(load_config(path).model_dump(mode="json"), sort_keys=False), nl=False)


@command.command()
def schema() -> None:
    """Print the JSON Schema of the settings, for editors."""
    from tracegrade.config import Config

    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    click.echo(json_text(described))
