"""A set of dialects in order of preference: what they read, what attributes hold, and which dialect reads a span."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from tracegrade import semconv as s
from tracegrade.extract.dialects import gen_ai, openinference
from tracegrade.extract.key_sets import ByKeys
from tracegrade.extract.reading import Dialect, Keys, join_keys, keys_among, no_name, no_schemas
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

SchemaReader: TypeAlias = Callable[[Span], dict[str, JsonValue]]
"""A reader of the tool definitions of a span, as `Dialect.schemas`."""

Content: TypeAlias = Literal["arguments", "outputs", "messages"]

# Of no dialect alone: ids, names and counts of the conventions, and what a resource says of itself.
_CONVENTIONS = frozenset(
    {
        *(s.AGENT_ID, "gen_ai.system", "gen_ai.provider.name", "gen_ai.response.finish_reasons", "gen_ai.response.id"),
        *(s.EVENT_NAME, s.EVENT_SEQUENCE, s.MCP_METHOD, s.JSONRPC_REQUEST_ID, s.MCP_SESSION_ID),
        *(s.FASTMCP_ORIGINAL_NAME, s.EXCEPTION_TYPE, s.ERROR_TYPE, *s.TOKEN_USAGE),
        *(s.SERVICE_NAME, s.SERVICE_VERSION, s.CASE_ID, s.SUITE_UNIT),
        *("service.namespace", "service.instance.id", "deployment.environment.name", "deployment.environment"),
        *("telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version"),
    }
)

# What all dialects share, in order of preference: each reads its own keys first and then these.
CONVENTIONS = join_keys((gen_ai.DIALECT.keys, openinference.DIALECT.keys))

# Sets with more keys than this are of flattened messages, and do not repeat: of them, only what is known is looked up.
_MAX_WHOLE_KEYS = 64
_REFERENCES = frozenset(s.REFERENCES)


class Form(NamedTuple):
    """For spans with one set of attribute keys: the dialects to ask, each with those of its keys that are there.

    ``shared`` are those of `CONVENTIONS`, for a span that no dialect takes; ``session`` and ``user`` those of any.
    ``schemas`` read its tool definitions, of a span without events. ``redacted`` says whether a span of these keys
    carries our mark of having been redacted, ``refers`` whether it refers to content that is stored elsewhere.
    """

    readers: tuple[tuple[Dialect, Keys], ...]
    shared: Keys
    session: tuple[str, ...]
    user: tuple[str, ...]
    schemas: tuple[SchemaReader, ...]
    redacted: bool
    refers: bool


class _Forms(ByKeys[Form]):
    """Forms by attribute keys, so that a further dialect costs nothing for the spans of others.

    Those that go by a span's name are asked about spans that have no other's marks.
    """

    def __init__(
        self,
        dialects: Iterable[Dialect],
        marks: frozenset[str],
        keys: Keys,
        session_keys: tuple[str, ...],
        schema_readers: Mapping[SchemaReader, tuple[str, ...]],
    ) -> None:
        super().__init__(self._form)
        self._keys = {dialect: join_keys((dialect.keys, CONVENTIONS)) for dialect in dialects}
        self._by_name = tuple(d for d in self._keys if d.reads_names or not d.marks)
        self._session_keys = session_keys
        self._user_keys = keys.user
        self._schema_readers = schema_readers
        self._schema_places = tuple({place for places in schema_readers.values() for place in places})
        self._known = marks.union(*keys, session_keys, self._schema_places, _REFERENCES, (s.REDACTED,))

    def __missing__(self, names: tuple[str, ...]) -> Form:
        if len(names) > _MAX_WHOLE_KEYS and not self._known.issuperset(names):
            known = self._known.intersection(names)
            return self[tuple(sorted(known.union(p for p in self._schema_places if _begins_any(names, p))))]
        return super().__missing__(names)

    def _form(self, names: tuple[str, ...]) -> Form:
        dialects = tuple(d for d in self._keys if not d.marks.isdisjoint(names)) or self._by_name
        return Form(
            tuple((dialect, keys_among(self._keys[dialect], names)) for dialect in dialects),
            keys_among(CONVENTIONS, names),
            tuple(key for key in self._session_keys if key in names),
            tuple(key for key in self._user_keys if key in names),
            tuple(
                read
                for read, places in self._schema_readers.items()
                if not places or any(_begins_any(names, place) for place in places)
            ),
            s.REDACTED in names,
            not _REFERENCES.isdisjoint(names),
        )


def _begins_any(names: Iterable[str], start: str) -> bool:
    return any(name.startswith(start) for name in names)


class DeclaredKeys:
    """The attribute keys of several dialects, by what they hold.

    Attributes:
        structure: kinds of spans, ids and names, which every reader of a trace may see.
        definitions: the tools that models may call.
        content: keys of content, by kind.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        known = tuple(dialects)
        content: dict[str, set[Content]] = {}
        for dialect in known:
            _declare(content, "arguments", (*dialect.keys.arguments, *dialect.holds.arguments))
            _declare(content, "outputs", (*dialect.keys.output, *dialect.holds.output))
            _declare(content, "messages", (*dialect.keys.prompt, *dialect.keys.answer, *dialect.holds.messages))
        self.content: Mapping[str, frozenset[Content]] = {key: frozenset(kinds) for key, kinds in content.items()}
        errors = {key for dialect in known for key in (*dialect.keys.error_message, *dialect.holds.errors)}
        hidden = errors.union(content)
        named = {dialect: _structure_of(dialect) - hidden for dialect in known}
        self.structure = _CONVENTIONS.union(*(filter(_has_prefix, keys) for keys in named.values()))
        self.definitions = frozenset(
            key for dialect in known for key in (*dialect.keys.schema, *dialect.holds.definitions) if key not in hidden
        )
        self._beside: dict[str, set[str]] = {}
        for dialect, keys in named.items():
            for mark in filter(lambda mark: _has_prefix(mark) or mark in keys, dialect.marks):
                self._beside.setdefault(mark, set()).update(key for key in keys if not _has_prefix(key))

    def structure_beside(self, keys: Iterable[str]) -> frozenset[str]:
        """Words without a sender's prefix that are structure in an item of these keys: alone, they may mean anything.

        They are where a mark of the dialect that declares them is among the keys: one with its sender's prefix, or that
        is structure itself.
        """
        return frozenset().union(*(self._beside[key] for key in keys if key in self._beside))


def _declare(content: dict[str, set[Content]], kind: Content, keys: Iterable[str]) -> None:
    for key in keys:
        content.setdefault(key, set()).add(kind)


def _structure_of(dialect: Dialect) -> set[str]:
    keys = dialect.keys
    named = (keys.tool_name, keys.call_id, keys.agent, keys.session, keys.model, keys.failed, dialect.holds.structure)
    return {key for some in named for key in some}


def _has_prefix(key: str) -> bool:
    return "." in key or ":" in key


class DialectSet:
    """Dialects, of which the first that takes a span reads it.

    Attributes:
        marks: the attribute keys by which spans of any are known.
        attributes, prefixes, events: what assembly keeps of a span: attribute keys, how such begin, names of events.
        own_names, passed_over: what is not kept to be read by shape, as in `Dialect`.
        session_keys, user_keys: where the trace as a whole is asked for its session or user, in order of preference.
        metadata: attributes with a JSON object that may hold a session.
        session_marks: the marks of dialects that read a session by code; None when they go by more than marks.
        schema_readers: what reads tool definitions of a span, and where, see `Dialect.schemas_in`; dialects share them.
        handoff_readers: what reads which agents a handoff's span names; dialects share them.
        forms: what spans may be, by their attribute keys.
        declared: what attributes hold, for redaction and the page.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        known = tuple(dialects)
        keys = join_keys((CONVENTIONS, *(dialect.keys for dialect in known)))
        self.marks: frozenset[str] = frozenset().union(*(dialect.marks for dialect in known))
        self.attributes: frozenset[str] = frozenset(
            {
                *(key for some in keys for key in some),
                *(
                    key
                    for dialect in known
                    for key in dialect.marks.union(*dialect.holds, dialect.metadata, dialect.agent_metadata)
                ),
                s.ERROR_TYPE,
                s.FINISH_REASONS,
                s.JSONRPC_REQUEST_ID,
                s.MCP_METHOD,
                s.MCP_SESSION_ID,
                s.FASTMCP_ORIGINAL_NAME,
                s.REDACTED,
            }
        )
        self.prefixes = tuple(sorted({prefix for dialect in known for prefix in dialect.prefixes}))
        self.events: frozenset[str] = frozenset({s.EXCEPTION_EVENT, *(e for dialect in known for e in dialect.events)})
        self.own_names = tuple(sorted({name for dialect in known for name in dialect.own_names}))
        self.passed_over: frozenset[tuple[str, str]] = frozenset().union(*(d.passed_over for d in known))
        # An MCP session is a connection rather than a conversation: better than nothing.
        self.session_keys = (*keys.session, s.MCP_SESSION_ID)
        self.user_keys = keys.user
        self.metadata: frozenset[str] = frozenset().union(*(dialect.metadata for dialect in known))
        by_code = [dialect for dialect in known if dialect.session is not no_name]
        by_marks = all(dialect.marks and not dialect.reads_names for dialect in by_code)
        self.session_marks = frozenset().union(*(dialect.marks for dialect in by_code)) if by_marks else None
        self.schema_readers = {d.schemas: d.schemas_in for d in known if d.schemas is not no_schemas}
        self.handoff_readers = tuple(dict.fromkeys(dialect.handed_over for dialect in known))
        self.declared = DeclaredKeys(known)
        self.forms = _Forms(known, self.marks, keys, self.session_keys, self.schema_readers)
