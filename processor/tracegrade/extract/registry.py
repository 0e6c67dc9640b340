"""The dialects by name, in order of preference, and those in force: ours, after those of installed packages."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from tracegrade.extract.dialect_set import DialectSet
from tracegrade.extract.dialects import (
    agentops,
    anthropic,
    claude_code,
    crewai,
    crewai_openllmetry,
    flue,
    gemini_cli,
    gen_ai,
    genkit,
    google_adk,
    haystack,
    honeyhive,
    laminar,
    langchain4j,
    langfuse,
    langsmith,
    langwatch,
    livekit,
    llama_index,
    mastra,
    mlflow,
    openai_agents_logfire,
    openinference,
    openinference_haystack,
    openlit,
    openllmetry,
    pydantic_ai,
    respan,
    sentry,
    spring_ai,
    tool_name,
    traceai,
    vercel_ai,
    voltagent,
)
from tracegrade.extract.reading import Dialect

Result = TypeVar("Result")

# In order of preference where they disagree on what a span is.
DIALECTS: dict[str, Dialect] = {
    module.DIALECT.name: module.DIALECT
    for module in (
        openai_agents_logfire,
        honeyhive,
        langfuse,
        openinference_haystack,
        openinference,
        traceai,
        crewai_openllmetry,
        crewai,  # from here to mlflow: all may write GenAI's operation name as well
        spring_ai,
        livekit,
        voltagent,
        claude_code,
        anthropic,
        respan,
        sentry,
        langsmith,
        mastra,
        pydantic_ai,
        google_adk,
        flue,
        laminar,
        openlit,
        openllmetry,
        mlflow,
        gen_ai,
        gemini_cli,
        vercel_ai,
        haystack,
        genkit,
        langwatch,
        agentops,
        llama_index,
        tool_name,
        langchain4j,
    )
}

OURS = DialectSet(DIALECTS.values())
_in_force = OURS


def in_force() -> DialectSet:
    """The dialects that traces are read by."""
    return _in_force


def put_first(dialects: Mapping[str, Dialect]) -> None:
    """Have `dialects`, of installed packages, asked before ours, since they were installed to be asked.

    For the start of a process, before it reads a trace: facts about the dialects in force are not updated later.
    """
    global _in_force
    _in_force = DialectSet([*dialects.values(), *DIALECTS.values()]) if dialects else OURS


def read_safely(read: Callable[[DialectSet], Result]) -> Result:
    """The result of `read` with the dialects in force; with ours alone when one of an installed package raises."""
    try:
        return read(_in_force)
    except Exception:
        if _in_force is OURS:
            raise
        return read(OURS)
