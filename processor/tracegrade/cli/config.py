"""``tracegrade config``: settings checked, shown and described."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.output import print_line, print_lines
from tracegrade.cli.settings import config_option, data_dir_option
from tracegrade.display import count

if TYPE_CHECKING:
    from tracegrade.config import Config

_path = click.argument("path", type=click.Path(path_type=Path, dir_okay=False), required=False)
_NO_LINKS = "alerts.external_url is not set: notifications have no link to the incident; give the address of the page"


@click.group(cls=Group, path="config")
def command() -> None:
    """Check and show settings.

    PATH is a settings file, the same as -c; without one, the defaults.
    """


@command.command()
@_path
@config_option
def check(path: Path | None, config_path: Path | None) -> None:
    """Check a settings file, all files it names, and what installed packages add.

    Exit code 2: mistakes, all of them listed as file:line:column.
    """
    from tracegrade.config import load_config
    from tracegrade.plugins.installed import load_plugins
    from tracegrade.rule.code_access import code_files_of, open_to_others
    from tracegrade.rule.warnings import costs_not_known

    config = load_config(path or config_path)
    with config.names_lines():
        _check_files(config)
        rule_set = config.load_rules()
        config.quotas.check_rules(rule_set)
        costs = [] if config.traces.prices else rule_set.placed(costs_not_known)
        access = open_to_others(config.rules.paths, rule_set) if config.rules.allow_code else ()
    links = [] if config.alerts.external_url or not config.alerts.channels else [_NO_LINKS]
    for warning in (*config.warnings, *rule_set.warnings, *costs, *access, *links):
        print_line(f"Warning: {warning}", err=True)
    rules, exporters = count(len(rule_set), "rule"), count(len(config.exporters), "exporter")
    plugins = load_plugins()
    added = [
        f", {what} of packages: {', '.join(plugin.name for plugin in found)}"
        for what, found in (("dialects", plugins.dialects), ("evaluators", plugins.evaluators))
        if found
    ]
    if code := code_files_of(rule_set):
        added.append(f", code of rules: {', '.join(code)}")
    print_line(f"{path or config_path or 'defaults'}: nothing wrong, {rules}, {exporters}{''.join(added)}")


def _check_files(config: "Config") -> None:
    """Read what the sections that are set name, as `serve` will; what it reads them with is imported only for those."""
    from tracegrade.access.tokens import MadeTokens

    protocols = config.receivers.otlp.protocols
    servers = {
        "receivers.otlp.protocols.grpc": protocols.grpc,
        "receivers.otlp.protocols.http": protocols.http,
        "web": config.web,
    }
    guarded = {where: server for where, server in servers.items() if server is not None and (server.tls or server.auth)}
    made = MadeTokens(config.tokens_path)
    if guarded:
        from tracegrade.receive.access import check_access, lets_nobody_in

        for where, server in guarded.items():
            check_access(where, server, made)
        if (warning := lets_nobody_in(guarded, made)) is not None:
            print_line(f"Warning: {warning}", err=True)
    for exporter in config.exporters.values():
        exporter.tls_context()
    if config.redaction is not None:
        from tracegrade.receive.redaction import trial_redactor

        trial_redactor(config.redaction)
    if config.journal.kafka is not None:
        from tracegrade.journal.kafka.client import check_client

        check_client(config.journal.kafka)
    if config.parquet is not None:
        from tracegrade.deliver.parquet.storage import check_extra

        check_extra()


@command.command()
@_path
@config_option
@data_dir_option
def show(path: Path | None, config_path: Path | None, data_dir: str | None) -> None:
    """Print the settings in force as YAML, with defaults filled in and secrets masked."""
    import yaml

    from tracegrade.config import load_config

    config = load_config(path or config_path, data_dir=data_dir)
    shown = config.model_dump(mode="json")
    # Defaults are relative to the working directory; what is printed means the same anywhere.
    shown["data_dir"] = str(config.data_path)
    print_lines(yaml.safe_dump(shown, sort_keys=False).rstrip("\n"))


@command.command()
def schema() -> None:
    """Print the JSON Schema of the settings, for editors."""
    from tracegrade.config import settings_schema

    print_lines(json.dumps(settings_schema(), indent=2, ensure_ascii=False))
