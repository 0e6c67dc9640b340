"""The errors that a caller of TraceGrade may want to catch: a class for each thing that callers do about them.

TraceGradeError        somebody reads the message
+-- NotFound           nothing has that name or id
+-- WrongValue         a name or value that was given cannot be used
+-- NotPossible        it cannot be done as things are
+-- CannotTell         there is no result to decide by
+-- NotTaken           a request or message is not taken, and sending it again will not help

Packages add what only their callers tell apart: a journal that is locked, a rule file with its problems, a store.
"""


class TraceGradeError(Exception):
    """Base of all errors raised on purpose; the message says where, what was found, what was expected, what to do."""


class NotFound(TraceGradeError):
    """Nothing has the name or id that was asked for; the message says what there is."""


class WrongValue(TraceGradeError):
    """A name or value that was given cannot be used; the message says what is expected, or what there is."""


class NotPossible(TraceGradeError):
    """The request cannot be carried out in the present state; the message says why."""


class CannotTell(TraceGradeError):
    """There is no result from which to decide: nothing was there to judge, or judging did not come to its end."""


class NotTaken(TraceGradeError):
    """A request, or a message, is not taken, and sending it again will not help; ``reason`` is a label for counting."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)
