"""Standard streams that were closed before we were started, as by ``2>&-`` or by who makes a daemon."""

import os
import sys

_NAMES = ("stdin", "stdout", "stderr")


def open_those_closed() -> None:
    """Open the null device in place of each standard stream that is closed.

    Otherwise the next file that is opened, such as a segment of the journal, gets its number, and what a library or a
    child prints would be written into it; and Python has None in place of the stream.
    """
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            os.set_inheritable(opened, True)
        if getattr(sys, name) is None:
            stream = open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # stays
            setattr(sys, name, stream)
