"""Spans that look like tool calls and that no dialect reads: how a new framework is noticed on its first day.

Assembly drops attributes that nothing reads. Of a span that no dialect knows by its attributes, and whose attributes or
name look like a tool call's, it notes the keys in `Span.unread_keys`, so that they can be shown later.
"""

import re
from functools import lru_cache

from tracegrade.model.extraction import Extraction
from tracegrade.model.span import Span

_LONGEST_SCOPE = 256

# The word tool, in keys and names of any case style, or a call by its usual names; not what a model call is told of
# its tools.
_TOOL = re.compile(
    r"(?:(?<![A-Za-z])[Tt]ool|(?<=[a-z])Tool|TOOL)(?![a-z])(?![._-]?(?i:choice|config|definition|list|count))"
    r"|(?i:tool_?call|tools/call|function[._ ]?call)"
)
# Scopes that an instrumentation of models or agents has; only ever a reason to look closer.
_GEN_AI_SCOPE = re.compile(
    r"(?i)gen_?ai|llm|openai|anthropic|claude|gemini|vertex|bedrock|mistral|ollama|llama|lang(?:chain|graph|fuse)|crew|"
    r"autogen|haystack|dspy|smolagents|strands|agno|mastra|traceloop|openinference|openlit|semantic.?kernel|"
    r"(?<![a-z])(?:ai|mcp|agents?)(?![a-z])"
)


def looks_like_a_tool(text: str) -> bool:
    """Whether an attribute key or a span name looks like a tool call's."""
    return ("ool" in text or "unction" in text or "OOL" in text) and _TOOL.search(text) is not None


def looks_like_gen_ai(scope: str) -> bool:
    """Whether a scope's name, of which so much is read as names have, looks like one of models or agents."""
    return _names_gen_ai(scope[:_LONGEST_SCOPE])


@lru_cache(maxsize=4096)
def _names_gen_ai(scope: str) -> bool:
    return _GEN_AI_SCOPE.search(scope) is not None


def unread_spans(extraction: Extraction) -> list[Span]:
    """The spans of ``unread_tool_spans``, in the trace's order."""
    if not extraction.unread_tool_spans:
        return []
    unread = set(extraction.unread_tool_spans)
    return [span for span in extraction.trace.spans if span.span_id.hex() in unread]


def keys_of(span: Span) -> list[str]:
    """The attribute keys that an unread span came with, as far as they are known."""
    return sorted(span.attributes) if span.unread_keys is None else list(span.unread_keys)
