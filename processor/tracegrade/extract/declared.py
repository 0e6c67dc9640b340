"""What attributes hold, as dialects declare it: what traces are put together from, and what is content."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from tracegrade import semconv as s
from tracegrade.extract.reading import Dialect

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
