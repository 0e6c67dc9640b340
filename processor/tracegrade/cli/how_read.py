"""Lines on how the spans of a trace were read, for commands that show one."""

from typing import TYPE_CHECKING

from tracegrade.cli.output import print_line
from tracegrade.display import count

if TYPE_CHECKING:
    from tracegrade.model.extraction import Extraction

_MAX_UNREAD = 3


def print_how_read(extraction: "Extraction") -> None:
    """Say which calls of the trace were read by shape, and which spans were not read; nothing where all is certain."""
    from tracegrade.extract.how_read import BY_SHAPE_ADVICE, by_shape, spans_not_read

    if extraction.dialect_error:
        print_line(f"  read without the dialects of installed packages, one of which raised {extraction.dialect_error}")
    for found in by_shape([extraction]):
        print_line(f"  {found.sentence}; {BY_SHAPE_ADVICE}")
    unread = spans_not_read(extraction)
    for span in unread[:_MAX_UNREAD]:
        print_line(f"  {span.sentence}; {span.advice}")
    if (more := len(unread) - _MAX_UNREAD) > 0:
        print_line(f"  and {count(more, 'more span')} not read: 'tracegrade doctor' counts them by scope")
