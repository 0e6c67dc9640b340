"""Agent runs."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracegrade.model.short_hash import short_hash
from tracegrade.model.tool_call import ToolCall

_FIRST_WORDS = 80
_LOOKED_AT = 4 * _FIRST_WORDS  # characters of a prompt, which may be long


def normalised_prompt(text: str) -> str:
    """`text` with each run of whitespace as one space and none at either end: how prompts are compared."""
    return " ".join(text.split())


@dataclass(slots=True)
class AgentRun:
    """One agent invocation with its own calls (not those of its sub-agents).

    ``span_id`` (hex) is the invoke_agent span's, or the local root's when no span says that it is an agent; it is the
    subject id. ``prompt`` and ``final_answer`` are None when they cannot be read. ``calls`` are in the one total
    order: start, position in the asking message, end, span id.
    """

    span_id: str
    agent: str
    parent_span_id: str | None = None  # subject id of the enclosing run
    prompt: str | None = None
    final_answer: str | None = None
    session: str | None = None
    user: str | None = None
    model: str | None = None
    start_ns: int = 0
    end_ns: int = 0
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def prompt_hash(self) -> str | None:
        """16 hex digits, equal for prompts that differ in whitespace alone; None without a prompt."""
        if self.prompt is None:
            return None
        text = normalised_prompt(self.prompt)
        return short_hash(text.encode("utf-8", "surrogatepass"))

    @property
    def duration_ns(self) -> int | None:
        """From its start to its end, ns; None without times."""
        return self.end_ns - self.start_ns if self.start_ns and self.end_ns >= self.start_ns else None


def first_words(runs: Iterable[AgentRun]) -> str | None:
    """The beginning of the first prompt of `runs` on one line, for lists: at most 80 characters; None without one."""
    prompt = next((run.prompt for run in runs if run.prompt), None)
    if prompt is None:
        return None
    text = normalised_prompt(prompt[:_LOOKED_AT])
    return text if len(text) <= _FIRST_WORDS else text[: _FIRST_WORDS - 1] + "…"
