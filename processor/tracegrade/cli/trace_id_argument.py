"""A trace id on the command line."""

import re
from typing import Any

import click

_HEX = re.compile(r"[0-9a-f]{32}")


class _TraceId(click.ParamType[bytes]):
    """32 hex digits, as bytes; dashes and capitals are forgiven, since other programs print them."""

    name = "TRACE_ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        text = value.strip().replace("-", "").lower()
        if not _HEX.fullmatch(text):
            self.fail(f"expected 32 hex digits, found {value!r}", param, ctx)
        return bytes.fromhex(text)


TRACE_ID = _TraceId()
