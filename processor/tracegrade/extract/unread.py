"""Spans that look like tool calls and that no dialect reads: how a new framework is noticed on its first day.

Assembly drops attributes that nothing reads. Of a span that no dialect knows by its attributes, and whose attributes or
name look like a tool call's, it notes the keys in `Span.unread_keys`, so that they can be shown later.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter

from tracegrade import semconv as s
from tracegrade.extract.decode.values import is_masked
from tracegrade.extract.key_sets import ByKeys
from tracegrade.extract.messages import since_last_user
from tracegrade.extract.nodes import Node
from tracegrade.extract.shape.dialect import SHAPE
from tracegrade.extract.shape.keys import is_content_key, is_finish_reason
from tracegrade.extract.shape.words import words_of
from tracegrade.model.extraction import Extraction, UnreadWork, WhyUnread
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolCall

_ORDER = attrgetter("start_ns", "span_id")
_LONGEST_SCOPE = 256
_CLOSED_BY = {"[": "]", "{": "}"}

# The word tool, in keys and names of any case style, or a call by its usual names; not what a model call is told of
# its tools, nor what a program makes its list of tools of.
_TOOL = re.compile(
    r"(?:(?<![A-Za-z])[Tt]ool|(?<=[a-z])Tool|TOOL)(?![a-z])(?![._-]?(?i:choice|config|definition|list|count|specs?(?![a-z])"
    r"|schema|sources|router|registry|executors|runtimes))"
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


def unread_work(
    chats: Sequence[Node],
    nameless: Iterable[Span],
    models: Iterable[tuple[Span, bool]],
    unasked: Iterable[Span],
    calls: Sequence[ToolCall],
) -> list[UnreadWork]:
    """The work of a trace that could not be read, in order of start.

    A model call whose content was not recorded is none: that has reasons of its own. But where the content of others
    was recorded, one that says that it asked for tools is, if no call is known.

    Args:
        chats: the model calls that were read, in order of start.
        nameless: tool spans that do not name their tool.
        models: spans of models that neither a dialect nor shape could read, each with whether it holds content.
        unasked: spans of functions of which nothing says whether a model asked for them.
        calls: all calls that were read.
    """
    found = [_work(span, "tool span without a name") for span in nameless]
    found += [_work(span, "function that may be a tool") for span in unasked]
    for span, holds_content in models:
        found.append(_work(span, "messages not readable" if holds_content else "model span of no known dialect"))
    is_recorded = not calls and any(node.outputs() or node.inputs() for node in chats)
    for place, node in enumerate(chats):
        if node.outputs() and calls:
            continue  # nearly all
        shows = bool(node.outputs() or node.inputs())
        # The id of a call is on a model's span where the work of several was written on one.
        if not calls and (s.TOOL_CALL_ID in node.span.attributes or (is_recorded and says_tool_calls(node.span))):
            found.append(_work(node.span, "calls announced and not shown"))
        elif not shows and _holds_content(node.span) and not _is_shown_by_another(node, chats[place + 1 :], calls):
            found.append(_work(node.span, "messages not readable"))
    return sorted(found, key=_ORDER) if found else found


def _is_shown_by_another(node: Node, later: Sequence[Node], calls: Sequence[ToolCall]) -> bool:
    """Whether a model call whose messages cannot be read asked for no other calls than those that are known.

    A span within it may show the same model call, and the next model call of its run is given what this one said.
    """
    for other in later:
        if other.is_below(node) and other.outputs():
            return True
        if other.run is node.run and (messages := other.inputs()):
            known = {name for call in calls for name in (call.name, call.raw_name)}
            return all(call.name in known for message in since_last_user(messages) for call in message.calls)
    return False


def _work(span: Span, why: WhyUnread) -> UnreadWork:
    return UnreadWork(span.span_id.hex(), span.start_ns, why, span.scope)


def _holds_content(span: Span) -> bool:
    """Whether a model's span holds messages, prompts or completions, in its attributes or in events.

    That is an object or a list that is not empty, under a key for messages, inputs or outputs; in events of a prompt or
    a completion also a text.
    """
    for key in _CONTENT_KEYS[tuple(span.attributes)]:
        if _is_filled(span.attributes[key]):
            return True
    return bool(span.events) and any(
        (is_content_key(key) and _is_filled(value))
        or (_is_text_of_model(key) and isinstance(value, str) and value and not is_masked(value))
        for event in span.events
        for key, value in event.attributes.items()
    )


_CONTENT_KEYS = ByKeys(lambda keys: tuple(filter(is_content_key, keys)))


def _is_filled(value: JsonValue) -> bool:
    if type(value) is str:
        closed_by = _CLOSED_BY.get(value[:1])
        return bool(closed_by) and len(value) > 2 and value[1:].strip() != closed_by
    return type(value) in (dict, list) and bool(value)


def _is_text_of_model(key: str) -> bool:
    return words_of(key)[-1:] in (("prompt",), ("completion",))


# Gemini's: what the model wrote is no call, or of no tool that it has, and was not made.
_NO_CALL = re.compile("malformed_function_call|unexpected_tool_call")


def says_tool_calls(span: Span) -> bool:
    """Whether a model's finish reason says that it asks for tools, or for a function, as before there were tools."""
    said = (str(value).lower() for key, value in span.attributes.items() if is_finish_reason(key))
    return any(("tool" in reason or "function" in reason) and _NO_CALL.search(reason) is None for reason in said)


def without_steps_of_calls(unread: Sequence[Span], spans: Sequence[Span], calls: Sequence[ToolCall]) -> list[Span]:
    """Those of `unread` that may be calls: not one that has nothing of a call but its name, where calls are read.

    A scope whose calls are read in this trace writes what a call is on their spans, and not on those of its steps.

    Args:
        unread: spans that look like a tool's.
        spans: those of the trace.
        calls: the calls that were read.
    """
    if not unread or not calls:
        return list(unread)
    called = {call.span_id for call in calls}
    scopes = {span.scope for span in spans if span.span_id.hex() in called}
    return [span for span in unread if span.scope not in scopes or any(map(looks_like_a_tool, keys_of(span)))]


def unread_spans(extraction: Extraction) -> list[Span]:
    """The spans of ``unread_tool_spans``, in the trace's order."""
    if not extraction.unread_tool_spans:
        return []
    unread = set(extraction.unread_tool_spans)
    return [span for span in extraction.trace.spans if span.span_id.hex() in unread]


def unread_model_spans(extraction: Extraction) -> list[tuple[UnreadWork, Span]]:
    """What of models' work could not be read, with its span, in order of start."""
    found = [work for work in extraction.unread if work.span_id not in extraction.unread_tool_spans]
    if not found:
        return []
    spans = {span.span_id.hex(): span for span in extraction.trace.spans}
    return [(work, spans[work.span_id]) for work in found]


def read_by_shape(extraction: Extraction) -> list[tuple[ToolCall, Span]]:
    """Each call that no dialect reads, with its span, in the order of the calls."""
    found = [call for call in extraction.calls if call.dialect == SHAPE.name]
    if not found:
        return []
    spans = {span.span_id.hex(): span for span in extraction.trace.spans}
    return [(call, spans[call.span_id]) for call in found]


def keys_of(span: Span) -> list[str]:
    """The attribute keys that an unread span came with, as far as they are known."""
    return sorted(span.attributes) if span.unread_keys is None else list(span.unread_keys)
