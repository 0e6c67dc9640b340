"""The facts of a subject that clauses read, looked up once and shared by all rules."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tracegrade.cel.calls import Extent, calls_as_seen, extent_of, handoffs_as_seen, values_of
from tracegrade.cel.expression import CelContext, CelExpression
from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.evidence import Evidence, TraceContext
from tracegrade.evaluate.handoffs_made import handoffs_made
from tracegrade.extract.trace_context import ExtractionContext, SessionContext, SubjectContext
from tracegrade.model.agent_run import normalised_prompt
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import Session
from tracegrade.model.span import Resource, Span
from tracegrade.model.stand_ins import holds_unknown
from tracegrade.model.subject import Subject
from tracegrade.model.trace import Trace
from tracegrade.model.tri import PROMPT_UNREADABLE, Tri, Unknown
from tracegrade.rule.patterns import Patterns
from tracegrade.semconv import ENVIRONMENTS, REDACTED, SERVICE_VERSION

_CALLED = {
    "tools": "the name of a tool",
    "prompt": "the prompt",
    "agent": "the name of the agent",
    "service": "the name of the service",
    "environment": "the environment",
    "release": "the release",
}
UNREADABLE_PROMPT = Unknown("absent", "prompt", said=f"{PROMPT_UNREADABLE}, and a clause asks for it")
LONG_PROMPT = Unknown("too_large", "prompt", said="the prompt is too long for the expressions of a case")


@dataclass(slots=True)
class Facts:
    """One subject as clauses read it; None stands for what was not recorded.

    ``context_of`` gives what the trace says of the subject beside its calls.
    ``tenant`` is whose trace or session it is. ``redacted``: something of its traces was redacted by us.
    ``has_unread``: some work of its traces could not be read.
    ``service`` is "" when the resource names none, as everywhere.
    ``attributes`` are the places where an attribute is looked up, in this order: the subject's span, for a tool call
    that of its agent's run, the trace's root span, the resource of the subject's span.
    """

    tenant: str
    service: str
    environment: JsonValue
    release: JsonValue
    agent: str
    tools: list[str]
    prompt: str | None
    attributes: list[dict[str, JsonValue]]
    subject: Subject
    context_of: Callable[[Subject], TraceContext] | None = None
    redacted: bool = False
    has_unread: bool = False
    _normalised_prompt: str | None = field(default=None, init=False)
    _evidence: Evidence | None = field(default=None, init=False)
    _contexts: dict[bool, CelContext] = field(default_factory=dict, init=False)

    @property
    def evidence(self) -> Evidence:
        """The subject's calls as evaluators see them."""
        if self._evidence is None:
            context = None if self.context_of is None else self.context_of(self.subject)
            self._evidence = Evidence(
                self.subject.calls, self.prompt, self.subject.final_answer, context, redacted=self.redacted
            )
        return self._evidence

    @property
    def normalised_prompt(self) -> str | None:
        """The prompt as `agent_run.normalised_prompt`; made when the first rule asks, since prompts can be long."""
        if self._normalised_prompt is None and self.prompt is not None:
            self._normalised_prompt = normalised_prompt(self.prompt)
        return self._normalised_prompt

    def attribute(self, name: str) -> JsonValue:
        """The value of an attribute, None when no place has it."""
        return next((place[name] for place in self.attributes if name in place), None)

    def match(self, clause: str, patterns: Patterns) -> Tri:
        """Whether a clause (a name from `Clauses.named`) holds."""
        if patterns.match(self._value(clause)) or (clause == "prompt" and self.normalised_prompt in patterns.exact):
            return True
        unknown = self.unknown(clause, patterns)
        return False if unknown is None else unknown

    def unknown(self, clause: str, patterns: Patterns | None = None) -> Unknown | None:
        """Why it is unknown whether a clause holds that does not seem to; None where it is known.

        Args:
            clause: a name from `Clauses.named`.
            patterns: what it asks for; None: whatever that is.
        """
        if clause == "prompt" and self.prompt is None:
            return UNREADABLE_PROMPT
        if patterns is not None and patterns.is_too_long(self._value(clause)):
            return Unknown("too_large", said=f"{_called(clause)} is too long for the expressions of a clause")
        unread = self.unread_call if clause == "tools" else None
        if unread is not None and (patterns is None or self._may_have_called(patterns)):
            return unread
        if not self.redacted or not holds_unknown(self._value(clause)):
            return None
        return Unknown("redacted", said=f"{_called(clause)} was redacted, and a clause asks for it")

    def _value(self, clause: str) -> JsonValue:
        name = clause.removeprefix("attributes.")
        value: JsonValue = getattr(self, clause) if name == clause else self.attribute(name)
        return value

    @property
    def unread_call(self) -> Unknown | None:
        """Why more calls may have been made than are known, None where all can be read."""
        if self.subject.kind == "tool-call" or not self.has_unread:
            return None
        return unread_call(self.evidence)

    def _may_have_called(self, patterns: Patterns) -> bool:
        """Whether work that could not be read may be a call of one of some tools.

        A tool of a plain name whose name is nowhere in the trace is taken for not called: traces are left undecoded by
        the same rule.
        """
        names, trace = patterns.plain_names, self.subject.trace
        return names is None or not isinstance(trace, Trace) or any(_is_named_in(trace, name) for name in names)

    def holds(self, expression: CelExpression) -> Tri:
        """Whether a CEL expression is true of the subject."""
        with_values = expression.reads_values
        if (context := self._contexts.get(with_values)) is None:
            context = self._contexts[with_values] = CelContext(redacted=self.redacted)
        extent = self.extent(expression) if expression.may_be_too_much else None
        holds = expression.holds(context, partial(self.variables, with_values=with_values), extent)
        if isinstance(holds, bool) and holds not in expression.staying and (unread := self.unread_call) is not None:
            return unread
        return holds

    def variables(self, *, with_values: bool) -> dict[str, Callable[[], JsonValue]]:
        """The variables of expressions, as in `cel.variables.VARIABLES`; each is computed when it is called.

        `with_values`: what calls were given and returned can be read, too.
        """
        return {
            "service": lambda: self.service,
            "environment": lambda: _or_empty(self.environment),
            "release": lambda: _or_empty(self.release),
            "agent": lambda: self.agent,
            "session": lambda: self.subject.session or "",
            "prompt": lambda: self.prompt,
            "answer": lambda: self.subject.final_answer,
            "tools": lambda: list(self.tools),
            "attributes": self._all_attributes,
            "calls": lambda: calls_as_seen(self.subject.calls, with_values=with_values, redacted=self.redacted),
            "handoffs": lambda: handoffs_as_seen(self.evidence.once(handoffs_made), self.subject.calls),
            "trace": lambda: _trace_facts(self.subject),
        }

    def _all_attributes(self) -> dict[str, JsonValue]:
        return {name: value for place in reversed(self.attributes) for name, value in place.items()}

    def extent(self, expression: CelExpression) -> Extent:
        """How much an expression can read."""
        calls = self.subject.calls
        handoffs = len(self.evidence.once(handoffs_made)) if expression.reads_handoffs else 0
        texts: dict[str, JsonValue] = {"prompt": self.prompt, "answer": self.subject.final_answer}
        read: list[Iterable[JsonValue]] = [place.values() for place in self.attributes]
        read += [[texts[name]] for name in expression.texts_read]
        read += values_of(calls) if expression.reads_values else ()
        return extent_of(len(calls), max(len(self.tools), handoffs), read)


def _called(clause: str) -> str:
    """What people call that which a clause asks for."""
    return _CALLED.get(clause, clause.removeprefix("attributes."))


def _or_empty(value: JsonValue) -> JsonValue:
    return "" if value is None else value


def _trace_facts(subject: Subject) -> JsonValue:
    trace = subject.trace
    return {
        "id": trace.trace_id.hex(),
        "duration_ms": (trace.end_ns - trace.start_ns) / 1e6,
        "span_count": trace.span_count,
        "complete": trace.complete,
        "session": subject.session or "",
    }


class FactReader:
    """Reads the facts of the subjects of one trace; shared facts are looked up once."""

    def __init__(self, extraction: Extraction) -> None:
        trace = extraction.trace
        self._extraction = extraction
        self._context: ExtractionContext | None = None
        self._resource = trace.resource
        self._root = root = trace.root
        # Found by hex id. Most often the root is asked for; then the other spans need not be indexed.
        self._spans: dict[str, Span] = {root.span_id.hex(): root} if root is not None else {}
        self._others: Iterable[Span] = trace.spans

    def _span(self, span_id: str) -> Span | None:
        if span_id not in self._spans:
            self._spans.update((span.span_id.hex(), span) for span in self._others)
            self._others = ()
        return self._spans.get(span_id)

    def read(self, subject: Subject) -> Facts:
        """The facts of a subject of this trace."""
        span = self._span(subject.span_id)
        resource = self._resource if span is None or subject.kind == "trace" else span.resource
        run = self._span(subject.run.span_id) if subject.kind == "tool-call" and subject.run is not None else None
        return _facts(
            subject,
            self._extraction.trace.tenant,
            resource,
            [place.attributes for place in (span, run, self._root, resource) if place is not None],
            self._context_of,
            redacted=self._extraction.redacted,
            has_unread=bool(self._extraction.unread),
        )

    def _context_of(self, subject: Subject) -> TraceContext:
        if self._context is None:
            self._context = ExtractionContext(self._extraction)
        return SubjectContext(self._context, subject)


def session_facts(session: Session, subject: Subject) -> Facts:
    """The facts of a session: those of its first trace. Attributes are looked up in the other traces' roots too."""
    traces = [part.trace for part in session.parts]
    resource = traces[0].resource
    roots = [root.attributes for trace in traces if (root := trace.root) is not None]
    return _facts(
        subject,
        session.tenant,
        resource,
        [*roots, resource.attributes],
        lambda _: SessionContext(session),
        redacted=session.redacted,
        has_unread=any(part.unread is not None for part in session.parts),
    )


def _facts(
    subject: Subject,
    tenant: str,
    resource: Resource,
    places: list[dict[str, JsonValue]],
    context_of: Callable[[Subject], TraceContext],
    *,
    redacted: bool,
    has_unread: bool,
) -> Facts:
    tools: dict[str, Any] = {}
    for call in subject.calls:
        tools[call.name] = tools[call.raw_name] = None
    return Facts(
        tenant=tenant,
        service=resource.service,
        environment=environment_of(resource),
        release=resource.attributes.get(SERVICE_VERSION),
        agent=subject.agent,
        tools=list(tools),
        prompt=subject.prompt,
        attributes=places,
        subject=subject,
        context_of=context_of,
        redacted=redacted or REDACTED in resource.attributes,
        has_unread=has_unread,
    )


def _is_named_in(trace: Trace, name: str) -> bool:
    """Whether a name stands anywhere in what is kept of a trace."""
    return any(
        name in span.name
        or _holds(span.attributes, name)
        or any(_holds(event.attributes, name) for event in span.events)
        for span in trace.spans
    ) or any(_holds(record.event.attributes, name) for record in trace.log_records)


def _holds(value: JsonValue, name: str) -> bool:
    if isinstance(value, str):
        return name in value
    if isinstance(value, dict):
        return any(name in key or _holds(item, name) for key, item in value.items())
    return isinstance(value, list) and any(_holds(item, name) for item in value)


def environment_of(resource: Resource) -> JsonValue:
    """The environment that clauses read, None where none was recorded."""
    return next((value for name in ENVIRONMENTS if (value := resource.attributes.get(name)) is not None), None)
