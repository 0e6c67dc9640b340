"""``tracegrade alerts slo``: what is left of error budgets, and how fast they are spent."""

import time
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import tenant_option
from tracegrade.cli.output import Styled, format_option, print_json, print_table, styled
from tracegrade.cli.settings import settings_options
from tracegrade.document.duration import duration_text

if TYPE_CHECKING:
    from tracegrade.alert.detect.burn import Burn
    from tracegrade.alert.slo import SloStatus
    from tracegrade.config import Config


@click.command("slo", cls=Command)
@click.argument("rules", nargs=-1, metavar="[RULES...]")
@tenant_option
@settings_options
@format_option
def slo(config: "Config", output_format: str, rules: tuple[str, ...], tenant: str | None) -> None:
    """Show the error budgets of rules with an 'slo' alert, the most spent first.

    RULES are rule files or folders of them; without them, the rules of the settings. Only results of the rule in force
    count.

    JSON, a line for each: {tenant, rule, of, objective, window_s, service, agent, level, firing, judged, budget_left,
    spent_in_s, pairs: [{part, limit, long: {over_s, rate, judged}, short: {...}}]}. budget_left is a part of the
    budget, below 0 when more was spent, and null without results; spent_in_s is null where it lasts at the present
    rate.
    """
    from tracegrade.alert.slo import firing_places
    from tracegrade.alert.stored_slos import stored_slos, with_objectives
    from tracegrade.store.alerts import open_alerts
    from tracegrade.store.open import reading_store

    rule_set = config.load_rules(rules)
    with reading_store(config.store_url, tenant) as connection:
        found = stored_slos(connection, with_objectives(rule_set), time.time_ns())
        firing = firing_places(open_alerts(connection))
    if output_format == "json":
        print_json(status.to_json(firing) for status in found)
        return
    print_table(
        "",
        ["rule", "service", "agent", "objective", "budget left", "spent in", "burn rates", "alert"],
        [_row(status, is_firing=status.place in firing) for status in found],
        empty="No error budgets: no rule in force has an 'slo' alert, or none of them has results.",
    )


def _row(status: "SloStatus", *, is_firing: bool) -> list[str | Styled]:
    from tracegrade.alert.wording import length_text
    from tracegrade.rule.watched import PASS_RATE

    _, rule, of, service, agent = status.place
    left, spent_in_s = status.budget.left, status.budget.spent_in_s
    lasts = "" if spent_in_s is None else length_text(spent_in_s)
    return [
        rule if of == PASS_RATE else f"{rule} ({of})",
        service,
        agent,
        f"{100 * status.slo.objective:.6g}% over {duration_text(status.slo.window)}",
        "nothing judged" if left is None else styled(f"{left:.1%}", "red") if left <= 0 else f"{left:.1%}",
        lasts,
        ", ".join(map(_burn, status.budget.burns)),
        styled("! firing", "bold red") if is_firing else "",
    ]


def _burn(burn: "Burn") -> str:
    from tracegrade.alert.wording import length_text

    return f"{length_text(burn.minutes * 60)} {'-' if burn.rate is None else f'{burn.rate:.2g}'}"
