"""Finds personal data and secrets in many texts at once, cheaply.

Takes the bytes of a request (`Scanner.may_hold`: most hold nothing, which is seen without parsing them) and the texts
of one span or log record in the order they stand (`Scanner.find`). Gives the parts to replace. Changes nothing.

Pure; a `Scanner` is built once, never changes, and any thread may use it.
"""

from tracegrade.redact.scan.scanner import Found, Scanner

__all__ = ["Found", "Scanner"]
