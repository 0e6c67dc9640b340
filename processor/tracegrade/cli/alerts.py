"""``tracegrade alerts``: alerts that fire and fired, silences, and previews of alerts."""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tracegrade.cli.alerts_slos import slo
from tracegrade.cli.groups import Group
from tracegrade.cli.options import (
    TIME,
    Duration,
    command_user,
    limit_option,
    note_command,
    query_options,
    tenant_option,
)
from tracegrade.cli.output import (
    Styled,
    format_option,
    print_json,
    print_line,
    print_rows,
    print_table,
    progress,
    styled,
)
from tracegrade.cli.process import make_files_private
from tracegrade.cli.settings import ReadSettings, settings_options, tenant_reading_options
from tracegrade.display import time_text
from tracegrade.document.duration import duration_s, duration_text
from tracegrade.model.errors import NotPossible, WrongValue
from tracegrade.queries.parameters import IncidentsQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from tracegrade.access.rights import Right
    from tracegrade.alert.notify.channels.registry import Channel
    from tracegrade.alert.notify.links import Links
    from tracegrade.alert.noting import Author
    from tracegrade.alert.preview import Preview
    from tracegrade.config import Config
    from tracegrade.store.alerts import Silence, StoredAlert
    from tracegrade.store.incidents import Incident

_NS = 1_000_000_000
_HOLD_S = 45.0  # longer than Alertmanager's group_wait, 30 s unless set


@click.group(cls=Group, path="alerts")
def command() -> None:
    """Show alerts, silence them, and preview them on stored results."""


@command.command("list")
@query_options(IncidentsQuery)
@limit_option
@tenant_reading_options
@format_option
def list_(settings: ReadSettings, output_format: str, query: IncidentsQuery, limit: int) -> None:
    """List incidents, the latest first: alerts that fired together, since one thing went wrong.

    Below the table are the alerts that have too few results, or no baseline, yet.
    """
    from tracegrade.alert.notify.silences import silence_of, with_silence
    from tracegrade.alert.wording import waiting_text
    from tracegrade.queries.incidents import incidents_page
    from tracegrade.store.alerts import stored_silences, stored_waiting

    now_ns = time.time_ns()
    with settings.store() as connection:
        page = incidents_page(connection, query, limit)
        silences = stored_silences(connection, now_ns)
        waiting = stored_waiting(connection)
    found = page.items
    if output_format == "json":
        print_json(with_silence(incident, silences, now_ns) for incident in found)
        return
    silenced = {incident.id: silence_of(incident, silences, now_ns) for incident in found}
    # Else incidents of several tenants at one agent look alike.
    several = len({incident.lead.tenant for incident in found} | {one.tenant for one in waiting}) > 1
    print_table(
        "",
        [
            "id",
            *(["tenant"] if several else []),
            "state",
            "what",
            "level",
            "fired (UTC)",
            "ended (UTC)",
            "notified",
            "not notified",
        ],
        [
            [
                incident.id,
                *([incident.lead.tenant] if several else []),
                *_cells(incident, _ends_ns(silenced[incident.id])),
                [name for name, last in incident.notified.items() if last.state == incident.state],
                [
                    f"{name}: {last.error} ({last.tries} times)"
                    for name, last in incident.notified.items()
                    if last.error
                ],
            ]
            for incident in found
        ],
        empty="No incidents.",
    )
    if page.next is not None:
        print_line(f"The latest {limit}; --limit shows more, --firing or --since narrow it down.", err=True)
    for one in waiting:
        asked = (query.rule, one.rule_id), (query.service, one.service), (query.agent, one.agent)
        if any(wanted not in (None, found) for wanted, found in asked):
            continue
        place = f"{one.service or 'unnamed service'}{f', agent {one.agent}' if one.agent else ''}"
        if several:
            place += f", tenant {one.tenant}"
        print_line(
            f"{waiting_text(one.reason)}: {one.rule_id} at {place} ({one.alert}), since {time_text(one.since_ns)}"
        )


@command.command("show")
@click.argument("incident", metavar="ID")
@tenant_reading_options
@format_option
def show(settings: ReadSettings, output_format: str, incident: str) -> None:
    """Show one incident: what broke, since when, where most, what changed near that time, and examples."""
    from tracegrade.alert.notify.message import text
    from tracegrade.alert.notify.silences import with_silence
    from tracegrade.store.alerts import stored_silences

    now_ns = time.time_ns()
    with settings.store() as connection:
        found = _incident(connection, incident)
        silences = stored_silences(connection, now_ns)
    if output_format == "json":
        print_json([with_silence(found, silences, now_ns)])
    else:
        for line in text(found, settings.links).splitlines():
            print_line(line)
        for note in found.notes:
            said = f": {note.text}" if note.text else ""
            print_line(f"{time_text(note.time_ns)} {note.author}: {note.kind}{said}")


@command.command("accept")
@click.argument("incident", metavar="ID")
@tenant_reading_options
def accept(settings: ReadSettings, incident: str) -> None:
    """Take the level of an incident as the new normal: its alerts end, and fire again when it falls below that.

    Only alerts that compare with earlier results can be accepted. A bound such as 'below: 0.9' can
    only be changed in the rule, or the alert silenced.
    """
    from tracegrade.alert.accepting import accept as accept_level

    with settings.store() as connection:
        found = _incident(connection, incident)
    author = _author(settings, "accept", "admin", incident=found.id)
    try:
        accepted = accept_level(settings.store_url, found, author, time.time_ns())
    except NotPossible as error:
        raise click.UsageError(str(error)) from None
    ending, staying = accepted.ending, accepted.staying
    print_line(f"Accepted: {len(ending)} of {len(ending) + len(staying)} alerts end with the next check.")
    for alert in staying:
        print_line(f"Still firing: {alert.rule_id}, {alert.kind} {alert.bound:g}: change its bound in the rule.")


@command.command("acknowledge")
@click.argument("incident", metavar="ID")
@tenant_reading_options
def acknowledge(settings: ReadSettings, incident: str) -> None:
    """Send no repeated notifications of an incident, until its level rises.

    Channels are notified when it is over. Alertmanager is still sent it each minute: so it goes on firing there.
    """
    from tracegrade.alert.noting import acknowledge as note_it

    id_, author = _about(settings, incident, "acknowledge")
    note_it(settings.store_url, id_, author, time.time_ns())
    print_line(f"Acknowledged: {id_}")


@command.command("own")
@click.argument("incident", metavar="ID")
@tenant_reading_options
def own(settings: ReadSettings, incident: str) -> None:
    """Become the owner of an incident, in place of whoever is."""
    from tracegrade.alert.noting import own as note_it

    id_, author = _about(settings, incident, "own")
    note_it(settings.store_url, id_, author, time.time_ns())
    print_line(f"Owned by {author.name}: {id_}")


@command.command("comment")
@click.argument("incident", metavar="ID")
@click.argument("text")
@tenant_reading_options
def comment(settings: ReadSettings, incident: str, text: str) -> None:
    """Comment on an incident. The comment is redacted as spans are, and deleted with the incident."""
    from tracegrade.alert.noting import comment as note_it

    id_, author = _about(settings, incident, "comment")
    note_it(settings.store_url, id_, author, text, time.time_ns())
    print_line(f"Commented: {id_}")


def _about(settings: ReadSettings, incident: str, operation: str) -> "tuple[str, Author]":
    with settings.store() as connection:
        found = _incident(connection, incident)
    return found.id, _author(settings, operation, "review", incident=found.id)


def _author(settings: ReadSettings, operation: str, right: "Right", **named: str) -> "Author":
    """Who runs the command, which the access log notes first."""
    from tracegrade.alert.noting import Author
    from tracegrade.receive.typed_text import TypedText

    make_files_private()
    config = settings.whole()
    note_command(config, f"alerts {operation}", right, settings.tenant, **named)
    texts = TypedText(config.redaction, config.data_path)
    return Author(command_user(), settings.tenant, texts.redacted, texts.redacted_name)


@command.command("silence")
@click.argument("labels", nargs=-1, metavar="LABEL=GLOB...")
@click.option("--incident", "of_incident", metavar="ID", help="Of this incident; without labels, by those it has.")
@click.option("--for", "duration", default="2h", show_default=True, help="How long, such as 2h.")
@click.option("--comment", default="", help="Why.")
@click.option("--dry-run", is_flag=True, help="Only say what it would match now.")
@click.option("--end", "ended", metavar="ID", help="End this silence now.")
@click.option("--list", "listed", is_flag=True, help="Only list silences.")
@tenant_reading_options
@format_option
def silence(
    settings: ReadSettings,
    output_format: str,
    labels: tuple[str, ...],
    of_incident: str | None,
    duration: str,
    comment: str,
    dry_run: bool,
    ended: str | None,
    listed: bool,
) -> None:
    """Send no notifications of alerts whose labels match, such as rule=checkout-* service=shop, for some time.

    An alert that still fires when the silence ends is notified then. Labels: rule, level, service, agent, release,
    tenant, kind, of. With --tenant, only alerts of that tenant. Prints the silences in force.
    """
    from tracegrade.alert.silencing import checked_labels, end_silence, labels_of, matched, silence_s
    from tracegrade.alert.silencing import silence as make_silence
    from tracegrade.store.alerts import silence_named, stored_silences

    now_ns = time.time_ns()
    if sum((bool(labels or of_incident), ended is not None, listed)) != 1:
        raise click.UsageError("expected labels or --incident ID, or --end ID, or --list")
    if ended is not None:
        with settings.store() as connection:
            named = silence_named(connection, ended, now_ns)
        if named is None:
            raise click.UsageError(f"no silence {ended!r} is in force; --list shows those that are")
        author = _author(settings, "silence --end", "admin", silence=named)
        end_silence(settings.store_url, named, author, now_ns)
    elif not listed:
        incident = None
        if of_incident is not None:
            with settings.store() as connection:
                incident = _incident(connection, of_incident)
        wanted = _labels(labels) if labels or incident is None else labels_of(incident)
        try:
            wanted, lasting_s = checked_labels(wanted, settings.tenant), silence_s(duration)
        except WrongValue as error:
            raise click.UsageError(str(error)) from None
        if not dry_run:
            author = _author(settings, "silence", "admin", **({} if incident is None else {"incident": incident.id}))
            make_silence(settings.store_url, wanted, lasting_s, comment, author, now_ns, incident)
        with settings.store() as connection:
            print_line(matched(connection, wanted, incident).text, err=True)
    with settings.store() as connection:
        found = stored_silences(connection, now_ns)
    if output_format == "json":
        print_json(asdict(silence) for silence in found)
        return
    print_rows(
        (
            {
                "id": item.id,
                "labels": [f"{name}={glob}" for name, glob in item.labels.items()],
                "until (UTC)": time_text(item.ends_ns),
                "comment": item.comment,
                "by": item.author,
            }
            for item in found
        ),
        empty="No silences.",
    )


@command.command("preview")
@click.argument("rules", nargs=-1, required=True, metavar="RULES...")
@click.option("--since", type=TIME, default="7d", show_default=True, help="The time from which to look.")
@click.option("--until", type=TIME, help="The time up to which to look; without it, now.")
@click.option("--every", default="15m", show_default=True, help="The time between two checks.")
@click.option(
    "--by-start-time",
    is_flag=True,
    help="Count results by the start of their traces, not by their arrival: for imported and backdated traces.",
)
@tenant_option
@settings_options
@format_option
def preview(
    config: "Config",
    output_format: str,
    rules: tuple[str, ...],
    since: int,
    until: int | None,
    every: str,
    by_start_time: bool,
    tenant: str | None,
) -> None:
    """Show when the alerts of RULES would have fired over stored results; nothing is sent.

    For an alert that would not have fired, it says why, and how soon it would if results keep coming as they came last.
    RULES are rule files or folders of them. Only results of the rule as it is now (with the same rule hash) count. To
    see what a changed rule finds, judge stored traces again with 'tracegrade replay'.
    """
    from tracegrade.alert.check import looks_back_s
    from tracegrade.alert.preview import preview as look
    from tracegrade.alert.preview import without_results
    from tracegrade.alert.stored_history import ReadHistory
    from tracegrade.store.history import SeriesHistory, StartedHistory
    from tracegrade.store.open import reading_store

    chosen = [rule for rule in config.rules.reading.load(list(rules)).rules if rule.alert]
    if not chosen:
        raise click.UsageError("none of these rules has an 'alert'")
    until_ns = until if until is not None else time.time_ns()
    every_ns = round(_seconds(every) * _NS)
    silences = [alert.silent_s for rule in chosen for alert in rule.alert if alert.silent_s is not None]
    if silences and (shortest := min(silences)) < every_ns / _NS:
        print_line(
            f"Note: checks are {every} apart here, so that a silence of {duration_text(shortest)} may be missed, or "
            f"seen late; --every {duration_text(max(60.0, shortest / 3))} finds it.",
            err=True,
        )
    with reading_store(config.store_url, tenant) as connection:
        kind = StartedHistory if by_start_time else SeriesHistory
        counted = kind(connection, {rule.hash for rule in chosen})
        history = ReadHistory(counted, chosen, since - round((looks_back_s(chosen) + 7200) * _NS), until_ns)
        for rule in without_results(history, chosen, since, until_ns):
            print_line(
                f"Note: no results of {rule.id} as it judges now (hash {rule.hash}); 'tracegrade replay' judges stored "
                "traces by it.",
                err=True,
            )
        with progress("looks", max(0, until_ns - since) // every_ns) as advance:
            found = look(history, chosen, since, until_ns, every_ns, advance, counted=counted)
    if output_format == "json":
        print_json(alert.to_json() for alert in found.fired)
        for line in found.quiet:
            print_line(line, err=True)
    else:
        print_preview(found, config.alerts.links)


def print_preview(found: "Preview", links: "Links") -> None:
    """Print when alerts would have fired, and why others would not."""
    print_table(
        "",
        ["would be", "what", "level", "fired (UTC)", "ended (UTC)"],
        [_previewed(alert, links) for alert in found.fired],
        empty="No alert would have fired.",
    )
    for line in found.quiet:
        print_line(line)


@command.command("test")
@click.option("--channel", "chosen", multiple=True, metavar="NAME", help="Only this channel; may be repeated.")
@click.option(
    "--hold",
    "hold_s",
    type=Duration(),
    help="How long the alert fires before it ends. Unless given, 45s where a channel is Alertmanager, which waits for "
    "its group_wait (often 30 s) before it notifies anybody; else 0s.",
)
@settings_options
def test(config: "Config", chosen: tuple[str, ...], hold_s: float | None) -> None:
    """Send a test notification, and its end, to every channel of the settings.

    Routes and silences do not apply, and nothing is stored. Ctrl-C ends the alert at once. A channel that accepted it
    may not have reached anybody: check. Exit code 1 if a channel did not take it.
    """
    from tracegrade.alert.notify.channels.alertmanager import Alertmanager
    from tracegrade.alert.notify.channels.registry import channels
    from tracegrade.alert.notify.sample_incident import sample_incidents

    known = {channel.name: channel for channel in channels(config.alerts)}
    if not known:
        raise click.UsageError("the settings name no channel: 'alerts.channels' says where notifications are sent")
    if unknown := sorted(set(chosen) - set(known)):
        raise click.UsageError(f"no channel {unknown[0]!r}; expected one of {', '.join(known)}")
    asked = {name: channel for name, channel in known.items() if not chosen or name in chosen}
    if hold_s is None:
        hold_s = _HOLD_S if any(isinstance(channel, Alertmanager) for channel in asked.values()) else 0.0
    now_ns = time.time_ns()
    firing, ended = sample_incidents(now_ns, now_ns + round(hold_s * 1e9))
    accepted: dict[str, Channel] = {}
    for name, channel in asked.items():
        if (refused := channel.send(firing, now_ns)) is None:
            accepted[name] = channel
            print_line(f"{name}: accepted")
        else:
            print_line(f"{name}: not accepted, {refused}")
    if accepted and hold_s:
        print_line(f"The alert fires for {duration_text(hold_s)}, and then ends; Ctrl-C ends it now.", err=True)
        with suppress(KeyboardInterrupt):
            time.sleep(hold_s)
    failed = len(accepted) < len(asked)
    for name, channel in accepted.items():
        if (refused := channel.send(ended, time.time_ns())) is not None:
            failed = True
            print_line(f"{name}: its end was not accepted, {refused}")
    for channel in asked.values():
        channel.close()
    if failed:
        raise SystemExit(1)


def _previewed(alert: "StoredAlert", links: "Links") -> "Sequence[str | Styled]":
    from tracegrade.alert.notify.message import lines
    from tracegrade.alert.wording import summary
    from tracegrade.store.incidents import Incident

    state, _, *rest = _cells(Incident("", [alert]))
    return [state, "\n".join([summary(alert), *lines(alert, links)]), *rest]


def _incident(connection: "Connection", id_: str) -> "Incident":
    from tracegrade.store.incidents import incident_named

    if (found := incident_named(connection, id_)) is None:
        raise click.UsageError(f"no incident {id_!r}; 'tracegrade alerts list' shows them with their ids")
    return found


def _ends_ns(silence: "Silence | None") -> int | None:
    return None if silence is None else silence.ends_ns


def _cells(incident: "Incident", silenced_until_ns: int | None = None) -> "Sequence[str | Styled]":
    from tracegrade.alert.wording import headline

    states = {
        "firing": ("! firing", "bold red"),
        "resolved": ("✓ resolved", "green"),
    }
    state, style = states[incident.state]
    if silenced_until_ns is not None:
        state += f", silenced until {time_text(silenced_until_ns)}"
    return [
        styled(state, style),
        headline(incident),
        incident.level,
        time_text(incident.starts_ns),
        time_text(incident.ends_ns or 0),
    ]


def _labels(written: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for item in written:
        name, equals, glob = item.partition("=")
        if name.endswith("!") or "!~" in name or glob.startswith("~"):
            raise click.UsageError(
                f"{item}: a silence knows no =~, != or !~; write LABEL=GLOB, where * stands for any text, such as "
                "service=help*"
            )
        if not equals:
            raise click.UsageError(f"expected LABEL=GLOB such as service=shop, found {item!r}")
        labels[name] = glob
    return labels


def _seconds(text: str) -> float:
    try:
        seconds = duration_s(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if seconds <= 0:
        raise click.UsageError(f"expected a duration above 0, found {text!r}")
    return seconds


command.add_command(slo)
