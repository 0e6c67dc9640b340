"""Reads the spans of one trace by shape: which are of models, agents and tools, and what they say."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Literal, NamedTuple

import orjson

from tracegrade.extract.decode.values import first_text
from tracegrade.extract.document import own, parsed
from tracegrade.extract.messages import content_of
from tracegrade.extract.nodes import MAX_CHAIN, Node
from tracegrade.extract.reading import Keys, SpanKind
from tracegrade.extract.shape import dialect as own_keys
from tracegrade.extract.shape import names
from tracegrade.extract.shape.dialect import SHAPE, TOOL_KEYS
from tracegrade.extract.shape.keys import AGENT_NAMES, names_agent
from tracegrade.extract.shape.kinds import names_model
from tracegrade.extract.shape.messages import text_alone
from tracegrade.extract.shape.requests import Requests
from tracegrade.extract.shape.unclaimed_span import UnclaimedSpan, error_of, record_of_call
from tracegrade.extract.shape.words import words_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

# How many of a program's own functions are spans between a turn and a call in it, at most.
_MAX_STEPS = 32


class ReadByShape(NamedTuple):
    """What was read of the spans that no dialect reads.

    ``nodes`` are in order of start. ``nameless`` are executions of which the tool is not known, ``outside`` those in a
    trace that shows no work of a model or an agent, ``models`` spans of models of which no message could be read:
    each with whether it holds content. ``unasked`` are functions of which nothing says whether a model asked for them.
    """

    nodes: list[Node]
    nameless: list[Span]
    outside: list[Span]
    models: list[tuple[Span, bool]]
    unasked: list[Span]


class _Trace:
    """One reading of one trace."""

    def __init__(
        self, spans: Sequence[Span], nodes: Sequence[Node], left: Sequence[Span], functions: Sequence[Span]
    ) -> None:
        self._spans = spans
        self._nodes = nodes
        self._looked = [UnclaimedSpan(span) for span in left]
        self._functions = [UnclaimedSpan(span) for span in functions]
        self._chats = {node.span.span_id for node in nodes if node.kind == "chat"}

    @cached_property
    def _parents(self) -> dict[bytes, bytes]:
        """The parent of each span."""
        return {span.span_id: span.parent_span_id for span in self._spans}

    @cached_property
    def _tools(self) -> dict[bytes, str]:
        """The tools of the tool spans that dialects read."""
        return {node.span.span_id: _name_of(node) for node in self._nodes if node.kind == "tool"}

    @cached_property
    def _models_below(self) -> Counter[bytes]:
        """How many model calls that dialects read lie directly below each span, with no other of them in between."""
        return Counter(
            above
            for node in self._nodes
            if node.kind == "chat"
            for above in takewhile(lambda span_id: span_id not in self._chats, self._above(node.span))
        )

    def read(self) -> ReadByShape:
        chats, agents, models, others = [], [], [], []
        for looked in self._looked:
            kind = None if looked.is_bare else self._kind(looked)
            if kind == "around":
                continue
            if kind == "chat":
                chats.append(_chat_node(looked))
            elif kind == "agent":
                agents.append(_agent_node(looked))
            elif kind == "other":
                models.append((looked.span, looked.holds_content))
            else:
                others.append(looked)
        if not chats and not models and not self._chats:
            chats, others = self._models_by_what_they_ask(others)
        chats = self._innermost(chats)
        _without_repeated(chats)
        shown = {node.span.span_id for node in chats} | self._chats
        models = [model for model in models if not any(above in shown for above in self._above(model[0]))]
        if named := [looked for looked in others if _only_names_agent(looked)]:
            around = {above for span in self._spans if span.span_id in shown for above in self._above(span)}
            named = [looked for looked in named if looked.span.span_id in around]
            agents += map(_agent_node, named)
            taken = set(named)
            others = [looked for looked in others if looked not in taken]
        shows_work = bool(chats or agents or models) or any(
            node.kind in ("chat", "agent", "tool") for node in self._nodes
        )
        shows_work = shows_work or any(looked.kinds.is_agent or looked.is_of_gen_ai for looked in self._looked)
        tools: list[Node] = []
        nameless: list[Span] = []
        outside: list[Span] = []
        asking = [*(node for node in self._nodes if node.kind == "chat"), *chats]
        asked_from_ns = min((node.span.end_ns for node in asking), default=0)
        if candidates := [looked for looked in others if _may_be_tool(looked, asked_from_ns)]:
            asking.sort(key=lambda node: (node.span.start_ns, node.span.end_ns))
            requests = Requests(asking, self._looked)
            candidates = [looked for looked in candidates if _is_candidate(looked, requests)]
            if candidates:
                for node in self._nodes:
                    if node.kind == "tool":
                        span = node.span
                        requests.take(self._tools[span.span_id], first_text(span, node.keys.call_id), span.start_ns)
            found = self._executions(candidates, requests)
            shows_work = shows_work or any(self._is_in_flow(looked) for looked, _ in found)
            for looked, name in found:
                if not shows_work:
                    outside.append(looked.span)
                elif name:
                    tools.append(_tool_node(looked, name, _call_id(looked, requests), self._arguments(looked)))
                else:
                    nameless.append(looked.span)
        if models:
            # A span that counts the tokens of a turn has the turn's calls below it: they are its work, and are read.
            of_tools = [node for node in self._nodes if node.kind == "tool"]
            around = {above for node in [*of_tools, *tools] for above in self._above(node.span, _MAX_STEPS)}
            models = [model for model in models if model[0].span_id not in around]
        unasked: list[Span] = []
        if self._functions:
            asking.sort(key=lambda node: (node.span.start_ns, node.span.end_ns))
            asked, unasked = self._asked_functions([*chats, *agents, *tools], Requests(asking, self._looked))
            tools += asked
            if any(node.outputs() for node in asking):
                unasked = []  # what models put out is shown, and names none of them
        nodes = sorted(
            [*chats, *agents, *tools], key=lambda node: (node.span.start_ns, node.span.end_ns, node.span.span_id)
        )
        return ReadByShape(nodes, nameless, outside, models, unasked)

    def _asked_functions(self, found: Sequence[Node], requests: Requests) -> tuple[list[Node], list[Span]]:
        """The functions that models asked for, and those that hold no other work and may have been asked for.

        Args:
            found: the nodes that were read by shape.
            requests: what models asked for.
        """
        of_work = [node.span for node in (*self._nodes, *found)]
        around = {above for span in (*of_work, *(each.span for each in self._functions)) for above in self._above(span)}
        of_tools = {node.span.span_id for node in (*self._nodes, *found) if node.kind == "tool"}
        tools = {name for name in self._tools.values()} | {_name_of(node) for node in found if node.kind == "tool"}
        asked: list[Node] = []
        others: list[Span] = []
        for looked in self._functions:
            name, span = looked.key_name, looked.span
            if not name or name in tools or any(above in of_tools for above in self._above(span)):
                continue  # shown by a tool's own span, or a step of one
            if requests.open(name, span.start_ns) is not None:
                requests.take(name, None, span.start_ns)
                of_tools.add(span.span_id)
                asked.append(_tool_node(looked, name, None, looked.values.arguments))
            elif span.span_id not in around:
                others.append(span)
        return asked, others

    def _kind(self, looked: UnclaimedSpan) -> Literal["chat", "agent", "other", "around"] | None:
        """chat, agent; other: a model's span without a message; around: one around model calls; None: what is left."""
        kinds = looked.kinds
        if looked.is_foreign:
            return None
        if looked.is_model and not (kinds.is_agent and not kinds.is_model):
            if kinds.is_tool and not looked.kinds.is_model and not any(message.calls for message in looked.messages):
                return None
            if self._is_shown_by_dialect(looked.span):
                return None
            if self._models_below.get(looked.span.span_id, 0) > 1:
                return "around"  # known before its messages, often those of all, are read
            if looked.messages:
                return "chat"
            if kinds.is_other or kinds.is_tool or kinds.is_function:
                return None
            signs = (kinds.is_model, looked.names_model, looked.counts_tokens)  # one alone others have, too
            return "other" if sum(signs) > 1 or (kinds.is_model and looked.holds_content) else None
        if kinds.is_agent and not kinds.is_tool and not kinds.is_other:
            return "agent"
        return None

    def _models_by_what_they_ask(self, left: list[UnclaimedSpan]) -> tuple[list[Node], list[UnclaimedSpan]]:
        """The models of a trace in which none names itself: what asks for calls, and others of the same name.

        Returns:
            Their nodes, and the spans that are none of them.
        """
        asking = [looked for looked in left if looked.asks and not looked.is_foreign]
        around = {above for looked in asking for above in self._above(looked.span)}
        called = {looked.span.name for looked in asking if looked.span.span_id not in around}
        if not called:
            return [], left
        chats: list[Node] = []
        others: list[UnclaimedSpan] = []
        for looked in left:
            is_chat = looked.span.name in called and looked.span.span_id not in around and bool(looked.messages)
            if is_chat:
                chats.append(_chat_node(looked))
            else:
                others.append(looked)
        return chats, others

    def _innermost(self, chats: list[Node]) -> list[Node]:
        """The model calls without those that are around several others."""
        if not chats:
            return chats
        around: dict[bytes, int] = {}
        ids = {node.span.span_id for node in chats} | self._chats
        for span_id in ids:
            above = self._parents.get(span_id, b"")
            for _ in range(MAX_CHAIN):
                if not above:
                    break
                if above in ids:
                    around[above] = around.get(above, 0) + 1
                    break
                above = self._parents.get(above, b"")
        return [node for node in chats if around.get(node.span.span_id, 0) < 2]

    def _is_shown_by_dialect(self, span: Span) -> bool:
        """Whether a model's span that a dialect reads is around this one."""
        return any(above in self._chats for above in self._above(span))

    def _above(self, span: Span, most: int = MAX_CHAIN) -> list[bytes]:
        found: list[bytes] = []
        at = span.parent_span_id
        while at and len(found) < most:
            found.append(at)
            at = self._parents.get(at, b"")
        return found

    def _executions(self, candidates: Sequence[UnclaimedSpan], requests: Requests) -> list[tuple[UnclaimedSpan, str]]:
        """The spans that are executions, each with the name of its tool ("" where nothing says it)."""
        taken: dict[bytes, tuple[UnclaimedSpan, str]] = {}
        for looked in candidates:
            found = _execution(looked, requests)
            if found is None:
                continue
            name = found.name
            if not found.is_certain and (requests.asks or self._is_prefix(name, candidates)):
                name = ""
            if not name:
                arguments = looked.values.arguments
                name = requests.named_by(_call_id(looked, requests), arguments, looked.span.start_ns)
            if name and self._is_within(looked, name, taken):
                continue
            taken[looked.span.span_id] = looked, name
            if name:
                requests.take(name, _call_id(looked, requests), looked.span.start_ns)
        # A span around another one is no execution where the inner one is that of a tool which was asked for.
        around = {
            above
            for looked, name in taken.values()
            if name
            for above in self._above(looked.span)
            if above in taken
            and (not taken[above][1] or (name in requests.names and taken[above][1] not in requests.names))
        }
        within = {
            looked.span.span_id
            for looked, name in taken.values()
            if not name and any(above in taken or above in self._tools for above in self._above(looked.span))
        }
        return [found for span_id, found in taken.items() if span_id not in around and span_id not in within]

    def _arguments(self, looked: UnclaimedSpan) -> JsonValue:
        """The arguments of an execution: a value that its keys name, else what stands under keys of one word.

        A sender that writes a result under a key without a prefix writes each argument under its name. The keys that
        all spans have which are no tools' are its own.
        """
        arguments = looked.values.arguments
        if arguments is not None or not looked.bare or self._senders_own is None:
            return arguments
        return {key: parsed(value) for key, value in looked.bare.items() if key not in self._senders_own} or None

    @cached_property
    def _senders_own(self) -> frozenset[str] | None:
        """The keys of one word that all spans have which do not say that they are tools'.

        None without such spans, and where no tool's result stands under a key of one word.
        """
        others = [frozenset(looked.bare) for looked in self._looked if not looked.is_bare and not looked.kinds.is_tool]
        if not others or not any(looked.kinds.is_tool and looked.has_bare_result for looked in self._looked):
            return None
        return frozenset.intersection(*others)

    def _is_in_flow(self, looked: UnclaimedSpan) -> bool:
        """Whether a span with a result says tool where one around it says, under its prefix, workflow, chain or trace.

        A sender that has both words tells of agents' work, though no model's span is among it.
        """
        beside = looked.kinds.beside if looked.values.result is not None else None
        if not beside:
            return False
        flows = self._flows
        return bool(flows) and any(beside & flows[above] for above in self._above(looked.span) if above in flows)

    @cached_property
    def _flows(self) -> dict[bytes, frozenset[tuple[str, ...]]]:
        """The prefixes under which spans say workflow, chain or trace, of those that do."""
        return {looked.span.span_id: looked.kinds.beside_flow for looked in self._looked if looked.kinds.beside_flow}

    def _is_prefix(self, name: str, candidates: Sequence[UnclaimedSpan]) -> bool:
        """Whether names of spans that are no tools begin with this one: then it is their instrumentation's."""
        tools = {looked.span.span_id for looked in candidates}
        return any(
            span.name.startswith(name) and not span.name[len(name) : len(name) + 1].isalnum()
            for span in self._spans
            if span.span_id not in tools
        )

    def _is_within(self, looked: UnclaimedSpan, name: str, taken: Mapping[bytes, tuple[UnclaimedSpan, str]]) -> bool:
        """Whether a span around this one is of the same call."""
        for above in self._above(looked.span):
            outer = taken.get(above)
            if outer is None:
                if self._tools.get(above) == name:
                    return True
                continue
            if outer[1] == name:
                ids = (outer[0].values.call_id, looked.values.call_id)
                return None in ids or ids[0] == ids[1]
        return False


def read_by_shape(
    spans: Sequence[Span], nodes: Sequence[Node], left: Sequence[Span], functions: Sequence[Span] = ()
) -> ReadByShape:
    """Read the spans of a trace that no dialect reads.

    Args:
        spans: all of the trace, in order of start.
        nodes: those that dialects read.
        left: those kept whole that none reads, in order of start.
        functions: those that their sender calls functions and a dialect something that is no work, in order of start.
    """
    return _Trace(spans, nodes, left, functions).read()


def _name_of(node: Node) -> str:
    return first_text(node.span, node.keys.tool_name) or node.dialect.tool_name(node.span)


def _is_candidate(looked: UnclaimedSpan, requests: Requests) -> bool:
    """Whether a span that shows nothing but its name has one that may be a tool's."""
    name = looked.name
    return not looked.is_bare or bool(names.sentence_name(name) or names.named_among(requests.names, name))


def _may_be_tool(looked: UnclaimedSpan, asked_from_ns: int) -> bool:
    """Whether a span may be an execution: it says so itself, or a model may have asked for it from this time on."""
    if looked.span.start_ns < asked_from_ns and not looked.says_execution:
        return False
    if looked.is_bare:
        return True
    kinds = looked.kinds
    if kinds.is_other or (looked.is_model and not kinds.is_tool):
        return False
    return not looked.holds_work


class _Taken(NamedTuple):
    """The tool that a span is an execution of, "" where nothing says it; is it more than what a span's name leaves?"""

    name: str
    is_certain: bool = True


def _execution(looked: UnclaimedSpan, requests: Requests) -> _Taken | None:
    """The execution that a span is; None where it is none."""
    span, kinds = looked.span, looked.kinds
    if looked.is_foreign and _call_id(looked, requests) not in requests.ids:
        return None
    key_name = looked.key_name
    requested = _requested_name(looked, requests)
    if kinds.is_task and not kinds.is_tool and not requested:
        return None
    bare_name = looked.bare_name
    says_so = kinds.is_tool or (kinds.is_function and bool(key_name or bare_name))
    sentence = names.sentence_name(looked.name)
    if sentence and names.is_class(sentence) and requests.names and sentence not in requests.names:
        sentence = ""
    is_named = looked.names_tool_and_value and not (kinds.is_agent or kinds.is_chain or kinds.is_model)
    if not (says_so or is_named or sentence):
        if not requested:
            return None
        is_open = not requests.asks or requests.open(requested, span.start_ns) is not None
        return _Taken(requested) if is_open else None
    if looked.name.endswith("_error"):
        return None
    if name := requested or key_name or bare_name or sentence:
        return _Taken("" if names.is_class(name) and name not in requests.names else name)
    name = names.name_in(looked.name)
    return _Taken("" if names.is_class(name) else name, name == looked.name)


def _requested_name(looked: UnclaimedSpan, requests: Requests) -> str:
    """The name among those that models asked for that a key for names says, that stands in the span's name, or is all
    that another key says.
    """
    if not requests.names:
        return ""
    if looked.key_name in requests.names:
        return looked.key_name
    if found := names.named_among(requests.names, looked.name):
        return found
    if not names.is_framed(looked.name) and not looked.kinds.is_tool:
        return ""
    return next((text for _, text in names.texts_in(looked.fields) if text in requests.names), "")


def _call_id(looked: UnclaimedSpan, requests: Requests) -> str | None:
    values = looked.values
    return values.call_id or (values.request_id if values.request_id in requests.ids else None)


def _tool_node(looked: UnclaimedSpan, name: str, call_id: str | None, arguments: JsonValue) -> Node:
    values = looked.values
    found: dict[str, JsonValue] = {own_keys.NAME: name}
    if record := record_of_call(arguments, name):
        found[own_keys.ARGUMENTS] = record["arguments"]
        found[own_keys.CALL_ID] = call_id or record["id"]
    else:
        if call_id is not None:
            found[own_keys.CALL_ID] = call_id
        if arguments is not None:
            found[own_keys.ARGUMENTS] = content_of(arguments, name)
    if values.result is not None:
        found[own_keys.RESULT] = content_of(values.result, name)
    if values.error is not None:
        found[own_keys.FAILED] = True
        if text := error_of(values.error).message:
            found[own_keys.ERROR] = text
    schema = tuple(key for key in looked.span.attributes if words_of(key)[-1:] in _PARAMETERS)
    return _node(looked, "tool", TOOL_KEYS._replace(schema=schema), found)


_PARAMETERS = (("parameters",), ("schema",))  # of a tool, by which arguments without names are named


def _chat_node(looked: UnclaimedSpan) -> Node:
    shown = looked.shown
    model = tuple(".".join(path) for path, value in looked.fields if names_model(path, own(value)))
    model += tuple(".".join((*prefix, "name")) for prefix in sorted(looked.kinds.beside_model))
    found: dict[str, JsonValue] = {}
    inputs = shown.inputs or text_alone(looked.span, "arguments")
    outputs = shown.outputs or text_alone(looked.span, "result")
    for key, messages in ((own_keys.INPUT, inputs), (own_keys.OUTPUT, outputs)):
        if messages:
            found[key] = orjson.dumps(messages).decode()
    return _node(looked, "chat", Keys(model=model), found)


def _without_repeated(chats: Sequence[Node]) -> None:
    """Leave out of what models put out the calls that an earlier model call, which had ended, put out: a history."""
    asked: dict[str, int] = {}  # when the model call ended
    for chat in sorted(chats, key=lambda node: (node.span.start_ns, node.span.end_ns)):
        outputs = chat.outputs()
        new = [
            message
            for message in outputs
            if not message.calls
            or any(asked.get(call.call_id or "", chat.span.end_ns) > chat.span.start_ns for call in message.calls)
        ]
        if len(new) < len(outputs):
            chat.show_outputs(new)
        for message in new:
            for call in message.calls:
                if call.call_id is not None:
                    asked.setdefault(call.call_id, chat.span.end_ns)


def _agent_node(looked: UnclaimedSpan) -> Node:
    values = looked.values
    found: dict[str, JsonValue] = {own_keys.NAME: _agent_name(looked)}
    found |= {key: value for key, value in zip(_AGENT_VALUES, (values.arguments, values.result), strict=True) if value}
    return _node(looked, "agent", _AGENT_KEYS, found)


_AGENT_VALUES = (own_keys.ARGUMENTS, own_keys.RESULT)
_AGENT_KEYS = Keys(agent=(own_keys.NAME,), prompt=(own_keys.ARGUMENTS,), answer=(own_keys.RESULT,))


def _agent_name(looked: UnclaimedSpan) -> str:
    """The agent that a key names, or a ``name`` alone; else what its span's name leaves."""
    bare = ""
    for path, value in looked.fields:
        text = own(value)
        if type(text) is str and text:
            words = words_of(path[-1]) if path[-1] not in _NAMING or len(path) < 2 else words_of(".".join(path[-2:]))
            if words == ("agent",) or (words[-2:] in AGENT_NAMES and names_agent(".".join(path))):
                return text
            if words == ("name",) or (path[-1] == "name" and path[:-1] in looked.kinds.beside_agent):
                bare = text
    return bare or names.agent_in(looked.name)


def _only_names_agent(looked: UnclaimedSpan) -> bool:
    """Whether a key of a span names an agent, and none says of what kind the span is."""
    kinds = looked.kinds
    is_of_kind = kinds.is_tool or kinds.is_function or kinds.is_model or kinds.is_other or kinds.is_chain
    return not is_of_kind and not looked.is_foreign and any(map(names_agent, looked.span.attributes))


_NAMING = ("name", "role")


def _node(looked: UnclaimedSpan, kind: SpanKind, keys: Keys, found: dict[str, JsonValue]) -> Node:
    agent = keys.agent or tuple(filter(names_agent, looked.span.attributes))
    span = replace(looked.span, attributes={**looked.span.attributes, **found})
    return Node(span, kind, SHAPE, keys._replace(agent=agent))
