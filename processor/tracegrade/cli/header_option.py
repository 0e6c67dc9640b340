"""Headers on the command line: ``'NAME: VALUE'``, whose values may be keys and are never shown."""

import os
from collections.abc import Collection, Sequence
from typing import Never

import click

from tracegrade.model.errors import WrongValue


def read_headers(option: str, written: Sequence[str], own: Collection[str]) -> dict[str, str]:
    """Names and values of `option`; those in `own`, in lower case, are not taken. No message shows a value.

    ``${env:NAME}`` in a value is read from the environment.

    Raises:
        UsageError: no header, one that is set by TraceGrade, or one that cannot be sent.
    """
    from tracegrade.document.yaml_text import expand
    from tracegrade.suites.mcp.headers import HEADER_NAME, is_sendable

    found: dict[str, str] = {}
    for number, text in enumerate(written, 1):
        name, colon, value = text.partition(":")
        name = name.strip()
        if not colon or not HEADER_NAME.fullmatch(name):
            raise click.UsageError(f"{option}: expected 'NAME: VALUE' (the {number}. one, not shown: it may be a key)")
        if name.lower() in own:
            raise click.UsageError(f"{option}: {name} is set by TraceGrade itself; leave it out")

        def refuse(message: str, name: str = name) -> Never:
            raise click.UsageError(f"{option} {name}: {message}")

        try:
            value = expand(value.strip(), os.environ, refuse)[0].strip()
        except WrongValue as error:
            refuse(str(error))
        if not is_sendable(value):
            refuse("expected printable ASCII, found something else, which is not shown: it may be a key")
        found[name] = value
    return found
