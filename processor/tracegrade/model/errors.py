"""The root of every error that a caller of TraceGrade may want to catch."""


class TraceGradeError(Exception):
    """Base of all errors raised on purpose; the message says where, what was found, what was expected, what to do."""


class NotTaken(TraceGradeError):
    """A request, or a message, is not taken, and sending it again will not help; ``reason`` is a label for counting."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)
