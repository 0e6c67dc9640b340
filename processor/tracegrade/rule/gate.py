"""The ``gate`` of a rule: what its pass rate has to reach before a change goes out."""

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from tracegrade.document.file_model import FileModel
from tracegrade.rule.mistakes import mistake, refuse

ANY_BASELINE = "baseline"
"""Stands for the baseline that the command line names."""

BASELINE_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
"""The name of a saved baseline: it is also the name of a file."""

LONGEST_NAME = 100

MARGIN = 0.02
"""By so much a pass rate may fall before it matters, unless the user says otherwise."""


class Gate(FileModel):
    """Requirements on the rule in each gate; experimental rules never fail one."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["at_least"]}, {"required": ["not_worse_than"]}]}
    )

    at_least: float | None = Field(default=None, ge=0, le=1, description="The least pass rate.")
    not_worse_than: str | None = Field(
        default=None,
        pattern=f"^{BASELINE_NAME}$",
        max_length=LONGEST_NAME,
        description=(
            "What the pass rate is compared with: the name of a saved baseline, or 'baseline' for the one that "
            "--baseline names, which is 'main' unless given."
        ),
    )
    margin: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="By so much the pass rate may be below that of the baseline; unless set 0.02, which is 2 points.",
    )

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.at_least is None and self.not_worse_than is None:
            raise refuse([mistake("expected at_least or not_worse_than, found neither: nothing would be required")])
        if self.margin is not None and self.not_worse_than is None:
            why = "a margin is for the comparison with a baseline: add 'not_worse_than: baseline', or remove 'margin'"
            raise refuse([mistake(why, "margin")])
        return self
