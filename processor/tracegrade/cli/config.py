"""``tracegrade config``: settings checked, shown and described."""

from pathlib import Path

import click

from tracegrade.cli.output import count, reports_errors

_path = click.argument(
    "path", type=click.Path(path_type=Path, dir_okay=False), required=False, envvar="TRACEGRADE_CONFIG"
)


@click.group()
def command() -> None:
    """Check and show settings.

    PATH is a settings file; without one, the file that TRACEGRADE_CONFIG names, else the defaults.
    """


@command.command()
@_path
@reports_errors
def check(path: Path | None) -> None:
    """Check a settings file and the rules it names.

    Exit 2 with every mistake, each as file:line:column.
    """
    from tracegrade.config import load_config
    from tracegrade.match.load import load_rules

    config = load_config(path)
    rule_set = load_rules(list(config.rules.paths))
    rules, exporters = count(len(rule_set), "rule"), count(len(config.exporters), "exporter")
    click.echo(f"{path or 'defaults'}: nothing wrong, {rules}, {exporters}")


@command.command()
@_path
@click.option(
    "--data-dir",
    metavar="FOLDER",
    envvar="TRACEGRADE_DATA_DIR",
    show_envvar=True,
    help="Where journal and store are, whatever the settings say.",
)
@reports_errors
def show(path: Path | None, data_dir: str | None) -> None:
    """Print the settings in force, defaults filled in, secrets masked, as YAML."""
    import yaml

    from tracegrade.config import load_config

    click.echo(yaml.safe_dump(load_config(path, data_dir=data_dir).model_dump(mode="json"), sort_keys=False), nl=False)


@command.command()
def schema() -> None:
    """Print the JSON Schema of the settings, for editors."""
    import json

    from tracegrade.config import settings_schema

    click.echo(json.dumps(settings_schema(), indent=2, ensure_ascii=False))
