"""The ``sample`` of a rule: which share of the traces it judges.

One hash of the trace id serves all rules, so 5 % of the traces are among the 10 % of another rule, in every process and
every replay. With ``keep_failures`` every trace is judged, and those that fail are kept whether sampled or not: a fail
then stands for itself, a pass for as many as the share says.
"""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from tracegrade.document.file_model import FileModel
from tracegrade.model.sample_point import sample_point


class Sample(FileModel):
    """Which share is judged."""

    share: float = Field(default=1.0, gt=0, le=1, description="The share of traces that is judged, by their ids.")
    keep_failures: bool = Field(default=False, description="Judge all, and keep every one that fails.")

    @property
    def kept_passes(self) -> float:
        """Sampling rate of passes relative to fails."""
        return self.share if self.keep_failures else 1.0

    def holds(self, subject: str) -> bool:
        """Whether a trace, by its id in hex, or a session, by its id, is in the sample."""
        return self.share == 1.0 or sample_point(subject) < self.share


def _as_object(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f"expected a share such as 0.1, or {{share: 0.1, keep_failures: true}}, found {value!r}")
    return {"share": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Sampled: TypeAlias = Annotated[
    Sample, BeforeValidator(_as_object, json_schema_input_type=Annotated[float, Field(gt=0, le=1)] | Sample)
]
