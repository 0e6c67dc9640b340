"""The forms of alerts that have fields of their own: a fall or a rise, lost coverage, an error budget."""

import re
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from tracegrade.document.file_model import Duration, FileModel
from tracegrade.rule.mistakes import mistake, refuse, refuse_what_went


def _share_or_history(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 < value <= 1:
            raise ValueError(f"expected a share between 0 and 1, or a duration such as 7d, found {value!r}")
        return {"share": value}
    return {"history": value} if isinstance(value, str) else value


class Baseline(FileModel):
    """What is compared with: a stated share, or the stored history before the window."""

    share: float | None = Field(default=None, gt=0, le=1, description="A stated share or mean score.")
    history: Duration | None = Field(default=None, gt=0, description="So long before the window, of any release.")


_WENT = {"false_alarm_every": "false alarms are promised by time now: write 'false_alarm_every: 30d' beside 'drop'"}


class Drop(FileModel):
    """A fall against a baseline."""

    against: Annotated[
        Baseline,
        BeforeValidator(
            _share_or_history,
            json_schema_input_type=Annotated[str, Field(examples=["7d"])] | Annotated[float, Field(gt=0, le=1)],
        ),
    ] = Field(description="A stated share (0.95), or how much stored history before the window (7d).")
    by: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="The smallest fall that matters; larger ones are found sooner, and half of it is no fall.",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_what_went(cls, value: object) -> object:
        return refuse_what_went(value, _WENT)


_PERCENT = r"([0-9]+(?:\.[0-9]+)?) ?%"


def _part(value: object) -> object:
    found = re.fullmatch(_PERCENT, value) if isinstance(value, str) else None
    if isinstance(value, str) and found is None:
        raise ValueError(f"expected a part such as 30 % or 0.3, found {value!r}")
    return float(found[1]) / 100 if found is not None else value


class Rise(FileModel):
    """A rise of the mean of tokens, cost or duration against a baseline."""

    against: Duration = Field(gt=0, description="How much stored history before the window is compared with (7d).")
    by: Annotated[
        float,
        BeforeValidator(
            _part,
            json_schema_input_type=Annotated[str, Field(pattern=f"^{_PERCENT}$", examples=["30 %"])]
            | Annotated[float, Field(gt=0)],
        ),
    ] = Field(
        default=0.3,
        gt=0,
        le=10,
        description="The smallest rise that matters, as a part of the mean before (30 % or 0.3); half is no rise.",
    )


class Coverage(FileModel):
    """Evaluations that stopped coming: a part of them while traces still come, or all of them."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["against"]}, {"required": ["silent"]}]})

    against: Duration | None = Field(
        default=None, gt=0, description="How much stored history before the window is compared with."
    )
    falls_to: float = Field(
        default=0.5, gt=0, lt=1, description="Fires when less than this part is left of what was usual."
    )
    silent: Duration | None = Field(
        default=None,
        ge=60,
        le=3 * 86_400,
        description="Fires when an agent that sent results sends none for so long, traces or not: 1m to 3d.",
    )

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        given = [name for name in ("against", "silent") if getattr(self, name) is not None]
        if len(given) != 1:
            raise refuse([mistake(f"expected one of against, silent, found {' and '.join(given) or 'none'}")])
        if self.silent is not None and "falls_to" in self.model_fields_set:
            raise refuse([mistake("silence has no part that is left; remove 'falls_to'", "falls_to")])
        return self


class Slo(FileModel):
    """An objective for the share of passes: fires when its error budget, the share that may fail, is spent too fast."""

    objective: float = Field(gt=0, lt=1, description="The share of passes to reach; the rest is the error budget.")
    window: Duration = Field(
        default=30 * 86_400.0, ge=86_400, le=90 * 86_400, description="The time that the budget is for: 1d to 90d."
    )
