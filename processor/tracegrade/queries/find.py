"""What a text names: ids by their beginning, names of rules, tools, agents, services and releases, and prompts."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson
from sqlalchemy import Column, Connection, func, select

from tracegrade.store.heads import IS_TRACE, TraceHead, heads_numbered
from tracegrade.store.schema import LIVE, incidents, traces
from tracegrade.store.tallies import names_of

NamedKind: TypeAlias = Literal[
    "trace", "session", "span", "result", "incident", "rule", "agent", "service", "release", "tool", "prompt"
]

SHORTEST_ID = 4
MOST = 10
"""How many things of one kind are found."""

_MOST_LOOKED_AT = 20_000
_LAST = "\U0010ffff"
# Where ids are in the lists of a row of `traces`: the column, and the place in an item of its list.
_IN_LISTS: dict[NamedKind, list[tuple[Column[Any], int]]] = {
    "span": [(traces.c.tool_calls, 2), (traces.c.agent_runs, 0)],
    "result": [(traces.c.evaluations, 0)],
    "tool": [(traces.c.tool_calls, 0)],
}


class Named(NamedTuple):
    """One thing with that name; ``head``: the trace that it is in, or the session that it is. A prompt is a value."""

    kind: NamedKind
    name: str
    head: TraceHead | None = None


def find(connection: Connection, rule_ids: Iterable[str], written: str, *, prompts: bool) -> list[Named]:
    """What `written` names among what was judged live, at most `MOST` of a kind; [] for an empty text.

    Spans, results, tools and prompts are looked for in the newest 20,000 traces; prompts by their first words, and only
    with `prompts`, for callers who may read values.
    """
    text = written.strip()
    if not text:
        return []
    found = [
        *_by_id(connection, text.replace("-", "").lower()),
        *_sessions(connection, text),
        *(
            Named("incident", id_)
            for id_ in connection.execute(
                select(incidents.c.id).where(_begins(incidents.c.id, text.lower())).limit(MOST)
            ).scalars()
        ),
    ]
    names: dict[NamedKind, Iterable[str]] = {
        "rule": {*rule_ids, *names_of(connection, "rule_id")},
        "agent": names_of(connection, "agent"),
        "service": names_of(connection, "service"),
        "release": names_of(connection, "release"),
    }
    found += [Named(kind, name) for kind, known in names.items() for name in _holding(text, known)]
    for kind in _IN_LISTS:
        if kind == "tool" or len(text) >= SHORTEST_ID:
            found += _in_lists(connection, kind, text)
    if prompts and len(text) >= SHORTEST_ID:
        found += _prompts(connection, text)
    return found


def _begins(column: Column[str], text: str) -> Any:
    return (column >= text) & (column < text + _LAST)


def _holding(text: str, names: Iterable[str]) -> list[str]:
    """The names that hold `text` in any case, those that begin with it first."""
    wanted = text.casefold()
    holding = [name for name in names if wanted in name.casefold()]
    return sorted(holding, key=lambda name: (not name.casefold().startswith(wanted), name))[:MOST]


def _by_id(connection: Connection, digits: str) -> list[Named]:
    if not SHORTEST_ID <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        return []
    first, last = (bytes.fromhex(digits.ljust(32, fill)) for fill in "0f")
    chosen = (traces.c.trace_id.between(first, last), traces.c.run == LIVE)
    return [
        Named("session" if head.session and head.members else "trace", head.trace_id, head)
        for head in _heads(connection, *chosen)
    ]


def _sessions(connection: Connection, text: str) -> list[Named]:
    """Sessions by the beginning of their id, each with its latest trace."""
    newest = (
        select(func.max(traces.c.number))
        .where(_begins(traces.c.session, text), traces.c.run == LIVE, IS_TRACE)
        .group_by(traces.c.session, traces.c.tenant)
        .limit(MOST)
    )
    heads = heads_numbered(connection, connection.execute(newest).scalars().all())
    return [Named("session", head.session or "", head) for head in heads]


def _prompts(connection: Connection, text: str) -> list[Named]:
    """The newest traces whose first prompt holds `text` in its first words, in any case."""
    heads = _heads(
        connection,
        traces.c.number > _newest(connection) - _MOST_LOOKED_AT,
        func.lower(traces.c.prompt).contains(text.lower(), autoescape=True),
        traces.c.run == LIVE,
        IS_TRACE,
    )
    return [Named("prompt", head.prompt or "", head) for head in heads]


def _newest(connection: Connection) -> int:
    return connection.execute(select(func.max(traces.c.number))).scalar() or 0


def _heads(connection: Connection, *chosen: Any) -> list[TraceHead]:
    numbers = select(traces.c.number).where(*chosen).order_by(traces.c.number.desc()).limit(MOST)
    return heads_numbered(connection, connection.execute(numbers).scalars().all())


def _in_lists(connection: Connection, kind: NamedKind, text: str) -> list[Named]:
    """Names in the lists of the newest traces, each with the newest trace that has it."""
    newest = _newest(connection)
    found: dict[str, int] = {}
    for column, place in _IN_LISTS[kind]:
        query = select(traces.c.number, column).where(
            traces.c.number > newest - _MOST_LOOKED_AT,
            column.contains(f'"{text}', autoescape=True),
            traces.c.run == LIVE,
        )
        for number, items in connection.execute(query.order_by(traces.c.number.desc()).limit(MOST)):
            for item in orjson.loads(items):
                if item[place].startswith(text) and len(found) < MOST:
                    found.setdefault(item[place], number)
    heads = {head.number: head for head in heads_numbered(connection, [*found.values()])}
    return [Named(kind, name, heads[number]) for name, number in found.items() if number in heads]
