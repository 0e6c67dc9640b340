"""Finds personal data and secrets in many texts at once, cheaply.

Takes the bytes of a request (`Scanner.places`: most hold nothing, which is known without parsing them) and the texts
of one span or log record in the order they stand (`Scanner.find`). Gives the parts to replace. Changes nothing.

Pure; any thread may use a `Scanner`, which is built once and learns only in what nothing was found.
"""

from tracegrade.redact.scan.close_look import SEPARATOR
from tracegrade.redact.scan.prefilter import Place
from tracegrade.redact.scan.scanner import Found, Scanner

__all__ = ["SEPARATOR", "Found", "Place", "Scanner"]
