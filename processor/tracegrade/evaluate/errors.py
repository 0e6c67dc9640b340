"""What an evaluator refuses.

TraceGradeError
└── EvaluatorError     .type says which: an `ErrorType`
"""

from typing import Literal, TypeAlias

from tracegrade.model.errors import TraceGradeError

# invalid_criteria, invalid_config: what was expected, or the evaluator's settings, cannot be used as written.
# no_criteria: none given and none configured as default. work_bound: comparing would cost more than `work.WORK_LIMIT`.
# invalid_case, unknown_evaluator: a case of `tracegrade evaluate` that cannot be read.
ErrorType: TypeAlias = Literal[
    "invalid_criteria", "invalid_config", "no_criteria", "work_bound", "invalid_case", "unknown_evaluator"
]


class EvaluatorError(TraceGradeError):
    """An evaluation that cannot give a score; ``type`` is a stable label for machines."""

    def __init__(self, type: ErrorType, message: str) -> None:
        self.type = type
        super().__init__(message)
