"""The conversation in a trace: what each model call was newly told, what it said, and what it called.

Frameworks give each model call the whole history again. Here a message is told once: the system prompt apart, what
earlier turns of the conversation said apart from what this one began with.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from tracegrade.extract.extract import claim, model_named_by
from tracegrade.extract.histories import beyond
from tracegrade.extract.joining import join
from tracegrade.extract.messages import ASSISTANT_ROLES, USER_ROLES, read_messages
from tracegrade.extract.reading import Dialect, Message
from tracegrade.extract.registry import in_force
from tracegrade.extract.token_usage import model_calls, run_around
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.usage import Usage
from tracegrade.semconv import SYSTEM_INSTRUCTIONS

_SYSTEM_ROLES = ("system", "developer")


class Said(NamedTuple):
    """A message: ``role`` is ``system``, ``user`` or ``assistant``, else as it was written.

    ``media`` names what it holds beside its text, such as an image, by type and size.
    """

    role: str
    text: str
    media: tuple[str, ...] = ()


@dataclass(slots=True)
class Step:
    """One model call and the tool calls that it led to, which are grouped by whether they were made together.

    A call comes with its number in its run. Calls that no model call came before are in a step whose ``span_id`` is "".
    ``usages`` are of the model call and of those within it.
    """

    span_id: str = ""
    model: str = ""
    start_ns: int = 0
    end_ns: int = 0
    heard: list[Said] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    calls: list[list[tuple[int, ToolCall]]] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)


@dataclass(slots=True)
class Talk:
    """The conversation of one agent run.

    ``system``: its system prompts, each once. ``earlier``: what earlier turns said, as the first model call was told.
    ``opening`` and ``closing``: prompt and final answer of the run, where no step holds them; None where one does, or
    where they were not recorded.
    """

    run: AgentRun
    system: list[str]
    earlier: list[Said]
    steps: list[Step]
    opening: str | None
    closing: str | None


class _Chat(NamedTuple):
    span: Span
    dialect: Dialect


def conversation(extraction: Extraction) -> list[Talk]:
    """The conversation of each agent run, in the order of `extraction`."""
    trace = extraction.trace
    spans = join(trace.spans, trace.log_records, in_force().events) if trace.log_records else trace.spans
    chats, within = _chats(spans)
    usages: dict[bytes, list[Usage]] = {}
    for calls in model_calls(extraction).values():
        for span, tokens in calls:
            usages.setdefault(within.get(span.span_id, span.span_id), []).append(Usage(model_named_by(span), tokens))
    parents = {span.span_id: span.parent_span_id for span in spans}
    run_of: dict[bytes, str | None] = {bytes.fromhex(run.span_id): run.span_id for run in extraction.runs}
    by_run: dict[str | None, list[list[_Chat]]] = {}
    for nested in chats:
        by_run.setdefault(run_around(nested[0].span.span_id, parents, run_of), []).append(nested)
    if len(extraction.runs) == 1:
        by_run = {extraction.runs[0].span_id: chats}
    known = {span.span_id.hex(): span for span in spans}
    return [_talk(run, known.get(run.span_id), by_run.get(run.span_id, []), usages) for run in extraction.runs]


def _chats(spans: Sequence[Span]) -> tuple[list[list[_Chat]], dict[bytes, bytes]]:
    """The model calls in order of start, each with the spans that show it, outermost first.

    Then, by the id of every span at or below a model call, the id of that call's outermost span.
    """
    known = {span.span_id: span for span in spans}
    within: dict[bytes, bytes] = {}
    found: dict[bytes, list[_Chat]] = {}
    for span in spans:
        way: list[bytes] = []
        at: Span | None = span
        while at is not None and at.span_id not in within and at.span_id not in way and len(way) < len(known):
            way.append(at.span_id)
            at = known.get(at.parent_span_id)
        above = within.get(at.span_id) if at is not None else None
        for span_id in reversed(way):
            claimed = claim(known[span_id])
            if claimed is not None and claimed[1] == "chat":
                above = above or span_id
                found.setdefault(above, []).append(_Chat(known[span_id], claimed[0]))
            elif claimed is not None and claimed[1] in ("agent", "tool"):
                above = None  # an agent below a model call has model calls of its own
            within[span_id] = above or b""
    outermost = sorted(found.values(), key=lambda nested: (nested[0].span.start_ns, nested[0].span.span_id))
    return outermost, {span_id: chat for span_id, chat in within.items() if chat}


def _talk(run: AgentRun, own: Span | None, chats: Sequence[Sequence[_Chat]], usages: dict[bytes, list[Usage]]) -> Talk:
    told = _Told()
    if own is not None:
        told.instruct(own)
    earlier: list[Said] = []
    steps = [Step()]
    before: _Chat | None = None
    for nested in chats:
        chat = nested[0]
        for each in nested:
            told.instruct(each.span)
        if len(nested) > 1:  # else not: a history is read only where it goes beyond the one before
            chat = next((each for each in nested if each.dialect.inputs(each.span)), chat)
        if before is None:
            earlier, heard = _at_last_prompt(told.new(chat.dialect.inputs(chat.span)))
        else:
            part, goes_on = beyond(chat.span, before.span, chat.dialect.prefixes)
            heard = told.new(chat.dialect.inputs(part), goes_on=goes_on)
        span = nested[0].span
        answer = next((said for each in nested if (said := _joined(each.dialect.outputs(each.span)))), [])
        told.note(answer)
        steps.append(
            Step(
                span.span_id.hex(),
                model_named_by(span) or next((usage.model for usage in usages.get(span.span_id, ())), ""),
                span.start_ns,
                span.end_ns,
                heard,
                answer,
                usages=usages.get(span.span_id, []),
            )
        )
        before = chat
    _place_calls(run.calls, steps)
    heard_texts = {said.text.strip() for step in steps for said in step.heard}
    last = next((said.text.strip() for step in reversed(steps) for said in reversed(step.said) if said.text), None)
    return Talk(
        run,
        told.system,
        earlier,
        steps if steps[0].calls else steps[1:],
        run.prompt if run.prompt is not None and run.prompt.strip() not in heard_texts else None,
        run.final_answer if run.final_answer is not None and run.final_answer.strip() != last else None,
    )


class _Told:
    """What was told already."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self._times: Counter[tuple[str, str]] = Counter()

    def new(self, messages: Iterable[Message], *, goes_on: bool = False) -> list[Said]:
        """The texts of `messages` that were not told before; `goes_on`: they are all new but for system prompts."""
        found = []
        again: Counter[tuple[str, str]] = Counter()
        for message in messages:
            said = _said(message)
            if not (said.text.strip() or said.media):
                continue
            if said.role == "system":
                if said.text not in self.system:
                    self.system.append(said.text)
                continue
            key = (said.role, said.text.strip())
            again[key] += 1
            if goes_on or again[key] > self._times[key]:
                found.append(said)
        self.note(found)
        # An answer that the history repeats was told when it was given.
        return [said for said in found if not goes_on or said.role != "assistant"]

    def instruct(self, span: Span) -> None:
        """Add the system prompt that `span` holds apart from its messages, if it is another one."""
        raw = span.attributes.get(SYSTEM_INSTRUCTIONS)
        if raw is None:
            return
        texts = [message.text for message in read_messages(raw) if message.text]
        text = "\n\n".join(texts) or (raw if isinstance(raw, str) and raw != "[]" else "")
        if text.strip() and text not in self.system:
            self.system.append(text)

    def note(self, told: Iterable[Said]) -> None:
        self._times.update((said.role, said.text.strip()) for said in told)


def _said(message: Message) -> Said:
    role = message.role
    if role in USER_ROLES:
        role = "user"
    elif role in ASSISTANT_ROLES:
        role = "assistant"
    elif role in _SYSTEM_ROLES:
        role = "system"
    return Said(role, message.text, message.media)


def _at_last_prompt(told: list[Said]) -> tuple[list[Said], list[Said]]:
    """What was said before the last message of a user, and the rest."""
    place = max((place for place, said in enumerate(told) if said.role == "user"), default=0)
    return told[:place], told[place:]


def _joined(messages: Iterable[Message]) -> list[Said]:
    """What a model call said; the pieces of a stream, which begin or end with white space, as one text."""
    found: list[Said] = []
    for role, group in groupby(map(_said, messages), key=lambda said: said.role):
        parts = list(group)
        texts = [part.text for part in parts if part.text]
        streamed = any(text != text.strip() for text in texts)
        text = ("" if streamed else "\n\n").join(texts)
        media = tuple(name for part in parts for name in part.media)
        if text.strip() or media:
            found.append(Said(role, text, media))
    return found


def _place_calls(calls: Sequence[ToolCall], steps: list[Step]) -> None:
    """Put each call into the step of the model call that shows it, else of the latest that started before it."""
    starts = [step.start_ns for step in steps]
    of_span = {step.span_id: step for step in steps if step.span_id}
    step = steps[0]
    for number, call in enumerate(calls, 1):
        if (shown := of_span.get(call.span_id)) is not None:
            step = shown
        elif call.start_ns:
            step = steps[bisect_right(starts, call.start_ns) - 1]
        together = step.calls and call.batch is not None and step.calls[-1][-1][1].batch == call.batch
        if together:
            step.calls[-1].append((number, call))
        else:
            step.calls.append([(number, call)])
