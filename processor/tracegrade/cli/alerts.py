"""``tracegrade alerts``: what fires, and what fired."""

from typing import TYPE_CHECKING

import click

from tracegrade.cli.output import format_option, print_json, print_table, reports_errors
from tracegrade.cli.settings_option import settings_options
from tracegrade.cli.times import TIME, time_text

if TYPE_CHECKING:
    from tracegrade.config import Config


@click.group()
def command() -> None:
    """Show alerts."""


@command.command("list")
@click.option("--firing", is_flag=True, help="Only what fires now.")
@click.option("--since", type=TIME, default=0, help="Only what fires, or was resolved since.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many, the newest.")
@settings_options
@format_option
@reports_errors
def list_(config: "Config", output_format: str, firing: bool, since: int, limit: int) -> None:
    """List alerts, the latest first."""
    from rich.text import Text

    from tracegrade.store.alerts import firing_alerts, recent_alerts
    from tracegrade.store.open import open_store, reading
    from tracegrade.yaml_file import duration_text

    with reading(open_store(config.store_url, read_only=True)) as connection:
        found = firing_alerts(connection)[::-1][:limit] if firing else recent_alerts(connection, since, limit)
    if output_format == "json":
        print_json(alert.to_json() for alert in found)
        return
    print_table(
        "",
        ["state", "rule", "of", "value", "below", "over", "judged", "service", "level", "since (UTC)", "until", "told"],
        [
            [
                Text("! firing", style="bold red") if alert.state == "firing" else Text("✓ resolved", style="green"),
                alert.rule_id,
                alert.of,
                f"{alert.value:.1%}",
                f"{alert.below:.1%}",
                duration_text(alert.over_s),
                alert.samples,
                alert.service,
                alert.level,
                time_text(alert.starts_ns),
                time_text(alert.ends_ns or 0),
                [name for name, state in alert.notified.items() if state == alert.state],
            ]
            for alert in found
        ],
        empty="No alerts.",
    )
