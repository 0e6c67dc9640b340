"""The root of every error that a caller of TraceGrade may want to catch."""


class TraceGradeError(Exception):
    """Base of all errors raised on purpose; the message says where, what was found, what was expected, what to do."""
