"""``tracegrade tokens``: who may send, read and change."""

import time
from typing import TYPE_CHECKING, Any

import click

from tracegrade.access.rights import ROLES
from tracegrade.cli.groups import Group
from tracegrade.cli.options import TENANT, Duration, note_command
from tracegrade.cli.output import Styled, format_option, print_json, print_line, print_rows, styled
from tracegrade.cli.process import make_files_private
from tracegrade.cli.settings import settings_options
from tracegrade.display import time_text
from tracegrade.document.duration import duration_text

if TYPE_CHECKING:
    from tracegrade.access.rights import Role
    from tracegrade.access.tokens import MadeToken
    from tracegrade.config import Config

GRACE = "24h"


_expires = click.option(
    "--expires", "lives_s", type=Duration(), help="When the token expires, such as 90d; without it, never."
)


@click.group(cls=Group, path="tokens")
def command() -> None:
    """Make, list, rotate and revoke tokens.

    A token lets its user in to every server of 'serve' whose settings have 'auth', with the rights of its roles: send,
    read, read-values, run, review, admin, or all. Only a hash of it is stored. A running 'serve' knows of a change
    within a second.
    """


@command.command()
@click.argument("name")
@click.option(
    "--role", "roles", multiple=True, required=True, type=click.Choice(ROLES), help="What it allows; may be repeated."
)
@click.option("--tenant", type=TENANT, help="Whose data it may send and see; without it, that of every tenant.")
@_expires
@settings_options
@format_option
def new(
    config: "Config",
    output_format: str,
    name: str,
    roles: "tuple[Role, ...]",
    tenant: str | None,
    lives_s: float | None,
) -> None:
    """Make a token, and show it once.

    JSON: as of 'list', with the token as "token".
    """
    from tracegrade.access.tokens import checked_name, new_token

    try:
        checked_name(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _refuse_past(lives_s)
    make_files_private()
    now_ns = time.time_ns()
    note_command(config, "tokens new", "admin", tenant, token=name, roles=", ".join(roles))
    token, secret = new_token(config.tokens_path, name, roles, tenant, lives_s, now_ns)
    _show_secret(token, secret, output_format, now_ns)
    if not config.asks_for_tokens:
        print_line(
            "No server of these settings asks for tokens: set auth: {} at receivers.otlp.protocols.grpc or http, at "
            "web or at telemetry.",
            err=True,
        )


@command.command("list")
@click.option("--all", "shows_all", is_flag=True, help="Also those that were revoked or have expired.")
@settings_options
@format_option
def list_(config: "Config", output_format: str, shows_all: bool) -> None:
    """List tokens, the oldest first.

    JSON: one token per line, {id, name, state, roles, tenant, created_ns, expires_ns, revoked_ns, old_until_ns}.
    """
    from tracegrade.access.tokens import stored_tokens

    now_ns = time.time_ns()
    found = [token for token in stored_tokens(config.tokens_path) if shows_all or token.is_valid(now_ns)]
    if output_format == "json":
        print_json(_json(token, now_ns) for token in found)
        return
    print_rows(
        (
            {
                "name": token.name,
                "id": token.id,
                "state": _state(token, now_ns),
                "roles": token.roles,
                "tenant": token.tenant or "every one",
                "made (UTC)": time_text(token.created_ns),
                "expires (UTC)": "never" if token.expires_ns is None else time_text(token.expires_ns),
            }
            for token in found
        ),
        empty="No tokens; 'tracegrade tokens new NAME --role read' makes one.",
        whole=["id", "made (UTC)", "expires (UTC)"],
        spare=["made (UTC)", "id"],
    )


@command.command()
@click.argument("name")
@click.option(
    "--grace",
    "grace_s",
    type=Duration(),
    default=GRACE,
    show_default=True,
    help="How long the old token is accepted beside the new one; 0s: not at all.",
)
@_expires
@settings_options
@format_option
def rotate(config: "Config", output_format: str, name: str, grace_s: float, lives_s: float | None) -> None:
    """Give a token, by its NAME or id, a new secret, and show it once.

    Without --expires, it expires as before.
    """
    from tracegrade.access.tokens import rotate_token

    _refuse_past(lives_s)
    make_files_private()
    now_ns = time.time_ns()
    note_command(config, "tokens rotate", "admin", token=name)
    token, secret = rotate_token(config.tokens_path, name, grace_s, lives_s, now_ns)
    _show_secret(token, secret, output_format, now_ns)


@command.command()
@click.argument("name")
@settings_options
def revoke(config: "Config", name: str) -> None:
    """Revoke a token, by its NAME or id: within a second, and sessions that were signed in with it end."""
    from tracegrade.access.tokens import revoke_token

    make_files_private()
    note_command(config, "tokens revoke", "admin", token=name)
    token = revoke_token(config.tokens_path, name, time.time_ns())
    print_line(f"{token.name} ({token.id}): revoked")


def _refuse_past(lives_s: float | None) -> None:
    if lives_s is not None and lives_s <= 0:
        raise click.UsageError(f"--expires: expected a time after now, found {duration_text(lives_s)}")


def _show_secret(token: "MadeToken", secret: str, output_format: str, now_ns: int) -> None:
    if output_format == "json":
        print_json([{**_json(token, now_ns), "token": secret}])
        return
    print_line(secret)
    whose = "every tenant" if token.tenant is None else f"tenant {token.tenant}"
    until = "it does not expire" if token.expires_ns is None else f"it expires {time_text(token.expires_ns)} UTC"
    print_line(
        f"This is the token {token.name!r}, shown this once: {', '.join(token.roles)}; {whose}; {until}.", err=True
    )
    if token.old_until_ns is not None and token.old_until_ns > now_ns:
        grace = duration_text((token.old_until_ns - now_ns) / 1e9)
        print_line(f"The old one is accepted for {grace}, until {time_text(token.old_until_ns)} UTC.", err=True)
    elif token.old_until_ns is not None:
        print_line("The old one is not accepted any more.", err=True)


def _state(token: "MadeToken", now_ns: int) -> Styled:
    if token.revoked_ns is not None:
        return styled("revoked", "red")
    if not token.is_valid(now_ns):
        return styled("expired", "yellow")
    if token.old_until_ns is not None and now_ns < token.old_until_ns:
        return styled("valid, and the old one", "cyan")
    return styled("valid", "green")


def _json(token: "MadeToken", now_ns: int) -> dict[str, Any]:
    state = str(_state(token, now_ns)).partition(",")[0]
    return {
        "id": token.id,
        "name": token.name,
        "state": state,
        "roles": token.roles,
        "tenant": token.tenant,
        "created_ns": token.created_ns,
        "expires_ns": token.expires_ns,
        "revoked_ns": token.revoked_ns,
        "old_until_ns": token.old_until_ns,
    }
