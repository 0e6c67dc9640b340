"""``tracegrade set-aside``: what ended the judge twice, and is kept from it."""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.options import wait_option
from tracegrade.cli.output import EXIT_CANNOT_TELL, format_option, print_json, print_line, print_table
from tracegrade.cli.settings import settings_options
from tracegrade.display import count, time_text

if TYPE_CHECKING:
    from tracegrade.config import Config

_LOOK_EVERY_S = 0.1


@click.group(cls=Group, path="set-aside")
def command() -> None:
    """List requests and traces that crashed the judge twice and were set aside, and have them judged again.

    A request that ends the judge twice while it is decoded or assembled (out of memory, out of time, or a bug) is set
    aside: it is forwarded like any other, counted as 'dropped: set_aside', and left out by the judge and by replay. The
    same holds for a trace.
    """


@command.command("list")
@settings_options
@format_option
def list_(config: "Config", output_format: str) -> None:
    """List the records and traces that are set aside.

    The file that is shown holds OTLP protobuf, which 'tracegrade extract FILE' and other tools can read.

    JSON: one line each: {kind, position, trace_id, signal, items, bytes, tenant, received_ns, set_aside_ns, reason,
    file}; kind is record or trace.
    """
    from tracegrade.pipeline.data_folder import DataFolder

    set_aside = DataFolder(config.data_path).set_aside
    aside = set_aside.load()
    shown: list[dict[str, Any]] = []
    for record in aside.waiting:
        path = set_aside.request_path(record)
        shown.append(
            {
                "kind": "record",
                "position": record.position,
                "trace_id": None,
                "signal": record.signal,
                "items": record.items,
                "bytes": record.end - record.position,
                "tenant": record.tenant,
                "received_ns": record.received_ns,
                "set_aside_ns": record.set_aside_ns,
                "reason": record.reason,
                "file": str(path) if path is not None else None,
            }
        )
    whole = [(trace_id, reason) for (trace_id, rule_id), reason in aside.pairs.items() if not rule_id]
    shown += [dict.fromkeys(_FIELDS) | {"kind": "trace", "trace_id": id_, "reason": why} for id_, why in whole]
    if output_format == "json":
        print_json(shown)
        return
    print_table(
        f"{count(len(aside.waiting), 'record')} and {count(len(whole), 'trace')} set aside",
        ["which", "holds", "received", "ended the judge", "file"],
        [
            [
                item["position"] if item["kind"] == "record" else item["trace_id"],
                f"{count(item['items'], _ITEMS[item['signal']])}, {item['bytes']} bytes" if item["items"] else "",
                time_text(item["received_ns"] or 0),
                item["reason"],
                item["file"],
            ]
            for item in shown
        ],
        empty="Nothing is set aside.",
    )


_FIELDS = [
    "kind",
    "position",
    "trace_id",
    "signal",
    "items",
    "bytes",
    "tenant",
    "received_ns",
    "set_aside_ns",
    "reason",
    "file",
]
_ITEMS = {"traces": "span", "logs": "log record"}


@command.command("retry")
@click.argument("names", nargs=-1, metavar="[WHICH...]")
@click.option("--all", "all_", is_flag=True, help="All that is set aside.")
@wait_option
@settings_options
def retry(config: "Config", names: tuple[str, ...], all_: bool, wait_s: float) -> None:
    """Have the judge read what was set aside again: records by position, traces by id, as 'list' shows them.

    A record is appended to the journal again, for the judge alone: it was forwarded when it arrived. If it ends the
    judge twice again, it is set aside again. Of a trace, spans that arrive from now on are judged; 'replay --trace-id'
    judges those in the journal. Exit code 3: requested, and not done yet.
    """
    from tracegrade.pipeline.data_folder import DataFolder
    from tracegrade.serve.offline import retry_set_aside_offline

    if bool(names) == all_:
        raise click.UsageError("expected what 'tracegrade set-aside list' shows, or --all")
    set_aside = DataFolder(config.data_path).set_aside
    if all_:
        aside = set_aside.load()
        names = tuple(str(record.position) for record in aside.waiting if set_aside.request_path(record) is not None)
        names += tuple(trace_id.hex() for trace_id in sorted(aside.traces))
    positions = [int(name) for name in names if len(name) < _TRACE_ID_DIGITS and name.isdecimal()]
    for name in names:
        if len(name) < _TRACE_ID_DIGITS and name.isdecimal():
            set_aside.ask_to_retry(int(name))
        else:
            set_aside.retry_trace(name.lower())
    deadline_s = time.monotonic() + wait_s
    while waiting := [position for position in positions if set_aside.is_asked(position)]:
        retry_set_aside_offline(config)
        if time.monotonic() >= deadline_s:
            print_line(
                f"Asked for, and not done yet: {waiting}; a running serve, or the next start, does it.", err=True
            )
            sys.exit(EXIT_CANNOT_TELL)
        time.sleep(_LOOK_EVERY_S)
    print_line(
        f"{count(len(positions), 'record')} and {count(len(names) - len(positions), 'trace')} no longer set aside."
    )


_TRACE_ID_DIGITS = 32
