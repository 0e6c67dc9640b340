"""Why a trace does not become a test."""

from tracegrade.model.errors import TraceGradeError


class PromoteError(TraceGradeError):
    """A trace cannot be made a test as it was asked; says why, and what to do."""
