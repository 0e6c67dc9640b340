"""Lengths of time as options of commands have them."""

import click

from tracegrade.document.duration import duration_s


class Duration(click.ParamType[float]):
    """A length of time such as ``90d``; becomes seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails with what was expected."""
        try:
            return duration_s(value)
        except ValueError as error:
            self.fail(str(error))
