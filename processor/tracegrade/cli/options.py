"""Options that several commands have, those made from queries, and what commands ask and note before they delete."""

import sys
from collections.abc import Callable, Collection
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracegrade.document.duration import duration_s
from tracegrade.model.evaluation import LIVE
from tracegrade.model.tenant import DEFAULT_TENANT, checked_tenant
from tracegrade.queries.parameters import Parameter, StoreQuery, parameters_of
from tracegrade.queries.times import time_of

if TYPE_CHECKING:
    from tracegrade.access.rights import Right
    from tracegrade.config import Config

R = TypeVar("R")
Q = TypeVar("Q", bound=StoreQuery)

limit_option = click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most this many, the newest."
)
wait_option = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="How many seconds to wait until a running serve has done it.",
)


run_option = click.option(
    "--run",
    default=LIVE,
    metavar="NAME",
    help="Only of this run, stored by 'replay --experiment', instead of live results; 'backfill': what 'rules "
    "backtest --store' added.",
)


def together(*options: Callable[[Any], Any]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """One decorator that adds `options`, which help shows in this order."""

    def add(function: Callable[..., R]) -> Callable[..., R]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


class _Time(click.ParamType[int]):
    """A point in time as `time_of` reads it; becomes ns since 1970 UTC."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return time_of(value)
        except ValueError as error:
            self.fail(str(error))


TIME = _Time()


class Duration(click.ParamType[float]):
    """A length of time such as ``90d``; becomes seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails with what was expected."""
        try:
            return duration_s(value)
        except ValueError as error:
            self.fail(str(error))


class _Tenant(click.ParamType[str]):
    """A name that a tenant can have: of any other there is nothing, and it was mistyped."""

    name = "tenant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return checked_tenant(str(value))
        except ValueError as error:
            self.fail(str(error))


TENANT = _Tenant()

tenant_option = click.option("--tenant", type=TENANT, help="Limit to this tenant; all tenants by default.")
"""``--tenant``, for a parameter ``tenant``: None unless given."""


def own_tenant_option(whose: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """``--tenant`` of what belongs to one tenant always; `whose` is its help."""
    return click.option("--tenant", type=TENANT, default=DEFAULT_TENANT, show_default=True, help=whose)


def query_options(
    query: type[Q], *, without: Collection[str] = (), **defaults: str
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add an option for each parameter of a query; the command is called with ``query``, the query that they make.

    Args:
        query: its class.
        without: names of parameters that the command does not have.
        defaults: what an option is where it is not given, by name.
    """
    chosen = [item for item in parameters_of(query) if item.name not in without]

    def add(function: Callable[..., R]) -> Callable[..., R]:
        @wraps(function)
        def wrapper(**arguments: Any) -> R:
            return function(query=query(**{item.name: arguments.pop(item.name) for item in chosen}), **arguments)

        return together(*(_option(item, defaults.get(item.name)) for item in chosen))(wrapper)

    return add


class Choice(click.Choice[str]):
    """One of some words; of a word near one of them the error says which is meant."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word; raises `click.BadParameter`."""
        from tracegrade.document.problem import did_you_mean

        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            meant = did_you_mean(str(value), self.choices)
            if not meant.startswith("; did"):
                raise
            self.fail(f"{error.message.removesuffix('.')}{meant}", param, ctx)


_METAVARS = {"rule": "ID", "session": "ID", "trace id": "TRACE_ID"}
_SHORTENED = {"session": "; the beginning of its id will do", "trace id": "; the first digits of its id will do"}


def _option(item: Parameter, default: str | None) -> Callable[[Any], Any]:
    if item.kind == "run":
        return run_option
    if item.kind == "tenant":
        return tenant_option
    name = f"--{item.name.replace('_', '-')}"
    if item.kind == "flag":
        return click.option(name, is_flag=True, help=f"{item.meaning}.")
    return click.option(
        name,
        type=TIME if item.kind == "time" else Choice(item.choices) if item.choices else str,
        metavar=_METAVARS.get(item.kind),
        default=item.default if default is None else default,
        show_default=default is not None,
        help=f"{item.meaning}{_SHORTENED.get(item.kind, '')}.",
    )


def rules_option(meaning: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """The option ``--rules``, several paths; `meaning` is its help."""
    return click.option("--rules", "rule_paths", multiple=True, metavar="PATH", help=meaning)


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm_deletion(what: str, yes: bool) -> None:
    """Ask whether `what` is to be deleted, unless `yes`; raises `click.Abort` for no, `UsageError` for nobody there."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what} would be deleted for good; --yes does so without asking")
    click.confirm(f"Delete {what} for good?", abort=True, err=True)


def command_user() -> str:
    """Who runs this command, as the access log names them."""
    import getpass

    try:
        return f"command line: {getpass.getuser()}"
    except (KeyError, OSError):  # in a container, without a name
        return "command line: unknown"


def note_command(config: "Config", operation: str, right: "Right", tenant: str | None = None, **named: str) -> None:
    """Note that this user did `operation`: before it is done, so that nothing is done that nobody noted.

    Raises:
        TraceGradeError: the log cannot be written.
    """
    from tracegrade.access.log import Access, AccessFiles
    from tracegrade.model.errors import TraceGradeError

    if config.access.log is None:
        return
    access = Access(command_user(), tenant, right, f"tracegrade {operation}", named)
    files = AccessFiles(config.data_path, config.access.log)
    try:
        files.write([access.line()])
    except OSError as error:
        raise TraceGradeError(
            f"{files.folder}: the access log cannot be written: {error.strerror}; nothing was done (access.log: null "
            "keeps none)"
        ) from None
