"""How commands that write recorded traces to files redact them: the options, and what they say of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from tracegrade.display import count

F = TypeVar("F", bound=Callable[..., Any])


def redaction_options(function: F) -> F:
    """Add ``--keep`` and ``--no-redact``."""
    for option in (
        click.option("--no-redact", is_flag=True, help="Write values as they are: for data that was made up."),
        click.option("--keep", multiple=True, metavar="PATH", help="Do not redact what stands there; * is any text."),
    ):
        function = option(function)
    return function


def counts_text(counts: Mapping[str, int]) -> str:
    """How often what was replaced: ``2 call_id, 1 email``, or ``nothing``."""
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "nothing"


def kept_text(kept: Sequence[str]) -> str:
    """Where values were kept."""
    return f"keeps {count(len(kept), 'value')} that looks personal or secret, at {', '.join(kept)}"
