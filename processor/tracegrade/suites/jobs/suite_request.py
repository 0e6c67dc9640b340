"""What a job is asked to do: run a stored suite with models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError

from tracegrade.document.document import Document
from tracegrade.document.file_model import FileModel
from tracegrade.document.validate import problems
from tracegrade.model.errors import NotPossible
from tracegrade.suites.models.asking import ToolChoice
from tracegrade.suites.models.settings import SEPARATOR, Target, load_models
from tracegrade.suites.settings import suites_settings

if TYPE_CHECKING:
    from tracegrade.config import Config

MOST_MODELS = 100
LONGEST_PROMPT = 100_000


class WrongRequest(NotPossible):
    """What was asked cannot be a job, whatever there is: its fields do not go together, or ask too much."""


class SuiteRequest(FileModel):
    """A run of a stored suite; `system_prompt` is for all models, or for each by its key, in place of the suite's."""

    suite: str = Field(min_length=1)
    models: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1, max_length=MOST_MODELS)
    temperature: float = Field(0.0, ge=0, le=2)
    tool_choice: ToolChoice = "required"
    system_prompt: (
        Annotated[str, Field(max_length=LONGEST_PROMPT)]
        | dict[str, Annotated[str, Field(max_length=LONGEST_PROMPT)]]
        | None
    ) = None
    repeat: int = Field(1, ge=1, le=1000)
    experiment: str | None = None
    labels: dict[str, str] = Field(default_factory=dict, max_length=100)
    max_parallel: int | None = Field(None, ge=1)

    def system_prompts(self, keys: Sequence[str]) -> dict[str, str]:
        """The system prompt of each of these models that has one of its own."""
        given = self.system_prompt
        if given is None:
            return {}
        return (
            dict.fromkeys(keys, given) if isinstance(given, str) else {key: given[key] for key in keys if key in given}
        )


def suite_request(written: Mapping[str, Any]) -> SuiteRequest:
    """The request that `written` is.

    Raises:
        NotPossible: a field is missing, unknown, or of a wrong type or range.
    """
    try:
        return SuiteRequest.model_validate(dict(written))
    except ValidationError as error:
        first = problems(Document("request", dict(written)), error, SuiteRequest)[0]
        raise NotPossible(first.message) from None


def known_models(config: "Config") -> list[Target]:
    """The models that jobs can ask: those of the file that the setting ``suites.models`` names.

    Raises:
        NotPossible: there is no such file.
        FileError: it has mistakes.
    """
    path = suites_settings(config).models
    if not Path(path).exists():
        raise NotPossible(f"there is no file {path}, where the setting suites.models says that models are")
    return load_models(Path(path), config.traces.prices)


def providers_of(request: Mapping[str, Any]) -> set[str]:
    """The names of the providers that a stored request asks."""
    return {str(key).partition(SEPARATOR)[0] for key in request.get("models", ())}
