"""``tracegrade traces delete``: what is kept of traces goes, from everywhere."""

import re
import sys
import time
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import TIME, confirm_deletion, note_command, tenant_option, wait_option, yes_option
from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    EXIT_FAILED,
    format_option,
    print_json,
    print_line,
    print_lines,
)
from tracegrade.cli.process import make_files_private
from tracegrade.cli.settings import settings_options
from tracegrade.display import count, time_text
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.tenant import DEFAULT_TENANT

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.deletion.request import Choice, Deletion

_WHOLE_ID = re.compile("[0-9a-fA-F]{32}")
_MOST_NOTED = 100  # ids of traces in an entry of the access log
_LOOK_EVERY_S = 0.1


@click.command("delete", cls=Command)
@click.argument("named", nargs=-1, metavar="[TRACE_ID...]")
@click.option("--session", metavar="ID", help="All traces of this session.")
@click.option("--user", metavar="ID", help="All traces with this id in an attribute that names a user.")
@tenant_option
@click.option("--before", type=TIME, help="All traces first received before this time.")
@yes_option
@wait_option
@settings_options
@format_option
def delete(
    config: "Config",
    output_format: str,
    named: tuple[str, ...],
    session: str | None,
    user: str | None,
    tenant: str | None,
    before: int | None,
    yes: bool,
    wait_s: float,
) -> None:
    """Delete traces from the journals, the store, alerts and Parquet files, and from the traces that are still open.

    A running 'serve' does it within seconds; when none runs, this command does it. Spans of a deleted trace that
    arrive later are not judged. What was already forwarded is not called back. With journal.kafka, messages stay in
    Kafka until the topics' retention deletes them, and are not judged again. Exit code 1: nothing of that name is kept;
    3: the deletion is requested and not done yet; it will be done, at the latest at the next start.
    """
    from tracegrade.deletion.request import Choice

    make_files_private()
    if sum(chosen is not None for chosen in (named or None, session, user, before)) != 1:
        raise click.UsageError("expected trace ids, or one of --session, --user and --before")
    if config.journal.kafka is None and not (config.data_path / "journal").is_dir():
        raise TraceGradeError(f"{config.data_path}: nothing was received here; -c or --data-dir says where it was")
    trace_ids = _whole_ids(config, tenant, named)
    choice = Choice(session, user, before, tenant)
    what = count(len(trace_ids), "trace") if choice.by_id_alone else f"all traces {_described(choice)}"
    if tenant is not None:
        what += f" of tenant {tenant!r}"
    confirm_deletion(what, yes)
    note_command(config, "traces delete", "admin", **_named(choice, trace_ids))
    deletion = _carried_out(config, choice, frozenset(trace_ids), wait_s)
    if output_format == "json":
        print_json([deletion.to_json()])
    elif deletion.state == "done" and not deletion.found_nothing:
        print_lines(
            _summary(deletion, with_files=config.parquet is not None, in_kafka=config.journal.kafka is not None)
        )
    if deletion.state != "done":
        print_line(
            f"Asked for, and {deletion.state} so far; a running serve, or the next start, does the rest.", err=True
        )
        sys.exit(EXIT_CANNOT_TELL)
    masked = _is_masked(config, choice)
    if masked:
        print_line(
            f"Redaction puts the same mask in place of user {choice.user!r} and of others, so that nobody can tell "
            "whose such traces are. Delete them by their ids, by --session or by --before.",
            err=True,
        )
    if deletion.found_nothing and not masked:
        print_line(f"Nothing was kept of {what}.", err=True)
    if choice.user is not None and config.store.values_retention is not None:
        gone_ns = time.time_ns() - round(config.store.values_retention * 1e9)
        print_line(
            f"Whose the traces are that came before {time_text(gone_ns)} UTC is not kept (store.values_retention): if "
            "there are any of this user, their names, ids, times and scores stay until store.retention.",
            err=True,
        )
    if deletion.found_nothing:
        sys.exit(EXIT_FAILED)


def _whole_ids(config: "Config", tenant: str | None, named: tuple[str, ...]) -> tuple[bytes, ...]:
    """The ids as they are; where only the beginning of one was given, that of the one stored trace that begins so."""
    plain = [text.strip().replace("-", "") for text in named]
    if all(map(_WHOLE_ID.fullmatch, plain)):  # they may be of traces that are not stored
        return tuple(map(bytes.fromhex, plain))
    from tracegrade.store.named import trace_id_named
    from tracegrade.store.open import reading_store

    with reading_store(config.store_url, tenant) as connection:
        return tuple(trace_id_named(connection, text, sessions=False) for text in named)


def _is_masked(config: "Config", choice: "Choice") -> bool:
    """Whether traces of the user may be there that nobody can tell from those of others."""
    if choice.user is None or config.redaction is None:
        return False
    from tracegrade.receive.redacted_ids import RedactedIds

    ids = RedactedIds(config.redaction, config.data_path)
    return ids.masks_user(choice.user, choice.tenant or DEFAULT_TENANT)


def _named(choice: "Choice", trace_ids: tuple[bytes, ...]) -> dict[str, str]:
    """What the access log says of it; of a user a hash, as of one who is to be forgotten."""
    from tracegrade.access.log import forgotten

    if choice.session is not None:
        return {"session": choice.session}
    if choice.user is not None:
        return {"user_id": forgotten(choice.user)}
    if choice.before_ns is not None:
        return {"before": time_text(choice.before_ns)}
    more = f" and {len(trace_ids) - _MOST_NOTED} more" if len(trace_ids) > _MOST_NOTED else ""
    return {"trace_id": ", ".join(trace_id.hex() for trace_id in trace_ids[:_MOST_NOTED]) + more}


def _carried_out(config: "Config", choice: "Choice", trace_ids: frozenset[bytes], wait_s: float) -> "Deletion":
    from tracegrade.deletion.request import Deletions
    from tracegrade.serve.offline import run_deletion_offline

    deletions = Deletions(config.data_path)
    deletion = deletions.request(choice, trace_ids)
    deadline_s = time.monotonic() + wait_s
    while True:
        deletion = run_deletion_offline(config, deletion)
        if deletion.state == "done" or time.monotonic() >= deadline_s:
            return deletion
        time.sleep(_LOOK_EVERY_S)
        deletion = deletions.find(deletion.id) or deletion


def _described(choice: "Choice") -> str:
    if choice.session is not None:
        return f"of session {choice.session!r}"
    if choice.user is not None:
        return f"of user {choice.user!r}"
    return f"from before {time_text(choice.before_ns or 0)} UTC"


def _summary(deletion: "Deletion", *, with_files: bool, in_kafka: bool) -> str:
    deleted = deletion.deleted
    journal = f"{count(deleted.spans, 'span')}, {count(deleted.log_records, 'log record')}"
    if in_kafka:
        journal = "in Kafka: messages stay until the topics' retention deletes them, and are not judged again"
    stored = [
        count(deleted.traces, "trace"),
        count(deleted.sessions, "session"),
        f"{count(deleted.evaluations, 'evaluation')}",
    ]
    return "\n".join(
        [
            f"Deleted {count(deletion.trace_count, 'trace')}:",
            f"  journal  {journal}",
            f"  results  {count(deleted.results, 'record')}",
            f"  store    {', '.join(stored)}",
            f"  alerts   {deleted.alerts} named one of them",
            *([f"  parquet  {count(deleted.parquet_rows, 'row')}"] if with_files or deleted.parquet_rows else ()),
            *([f"  replaced {_replaced(deleted.damaged_stores)}"] if deleted.damaged_stores else ()),
        ]
    )


def _replaced(stores: int) -> str:
    return f"{count(stores, 'store')} that 'doctor --repair' had put aside, as a whole: nothing can be taken out of it"
