"""Parameters of operations: their types, how they are checked, and the cursors of lists that come in pages."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, Union

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from tracegrade.access.caller import Caller
from tracegrade.access.rights import Right
from tracegrade.alert.noting import Author
from tracegrade.queries.paging import cursor_of, read_cursor
from tracegrade.queries.parameters import Kind, Parameter, StoreQuery, parameters_of
from tracegrade.queries.times import MAX_NS, time_of
from tracegrade.web.api.described import with_fields
from tracegrade.web.author import author_of
from tracegrade.web.problem import Refusal
from tracegrade.web.rights import check_right, check_tenant, tenant_of, token_of
from tracegrade.web.sources import Sources, sources_of

_TIME = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "format": "date-time"},
            {"type": "integer", "minimum": 0, "maximum": MAX_NS},
            {"type": "string", "pattern": "^[1-9][0-9]{0,3}(s|m|h|d)$"},
        ]
    }
)


def _time_in_json(value: object) -> int:
    if isinstance(value, str) and value.isdecimal():
        raise ValueError("expected ns since 1970 UTC as a number, or a time as text")
    return time_of(value)


Time: TypeAlias = Annotated[int, BeforeValidator(time_of), _TIME]
# In JSON no text is a number.
SentTime: TypeAlias = Annotated[int, BeforeValidator(_time_in_json), _TIME]


def _in_digits(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch("-?[0-9]+", value):
        raise ValueError("expected an integer, in digits")
    return value


def _in_decimals(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", value):
        raise ValueError("expected a number, in digits")
    return value


# Numbers as JSON has them: Pydantic reads 1_0 and " 1", too.
IN_DIGITS = BeforeValidator(_in_digits)
IN_DECIMALS = BeforeValidator(_in_decimals)
# PostgreSQL takes NUL in no text.
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00]+$")]
RunName: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1000,
        pattern=r"^[^\x00]+$",
        description="Only of this run; without it, of what was judged live, and of `backfill`: what `rules backtest "
        "--store` judged afterwards",
    ),
]
# In a path: no route fits one with a line break.
PathName: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\n\x00]+$")]


def _lower(text: str) -> str:
    return text.lower()


TraceId: TypeAlias = Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$"), AfterValidator(_lower)]
# The type of an optional parameter: null cannot be written in an address, so the document leaves it out.
Null: TypeAlias = SkipJsonSchema[None]


class Parameters(BaseModel):
    """The query parameters of an operation; one it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class Paged(Parameters):
    """The parameters of lists in pages."""

    limit: Annotated[int, IN_DIGITS] = Field(50, ge=1, le=1000, description="At most this many items")
    cursor: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{22}$")] | Null = Field(
        None, description="`next` of the page before; newer items do not shift it"
    )


Q = TypeVar("Q", bound=StoreQuery)
M = TypeVar("M", bound=BaseModel)

# By the kind of a parameter; the others are names.
_TYPES: dict[Kind, Any] = {"trace id": TraceId, "time": Time, "run": RunName, "flag": bool}


def with_parameters_of(query: type[StoreQuery], *, sent: bool = False) -> Callable[[type[M]], type[M]]:
    """Give a model a field for each parameter of a query.

    Args:
        query: its class.
        sent: whether the model is a body, where null can be written, and no text is a number.
    """
    return with_fields({item.name: _field(item, sent) for item in parameters_of(query)})


def _field(item: Parameter, sent: bool) -> tuple[Any, Any]:
    kind = Literal[item.choices] if item.choices else _TYPES.get(item.kind, Name)
    if sent and item.kind == "time":
        kind = SentTime
    unset = () if item.default is not None else (None,) if sent else (Null,)
    return Union[kind, *unset], Field(item.default, description=item.meaning) if item.meaning else item.default


def query_of(query: type[Q], read: BaseModel) -> Q:
    """The query that a model with its parameters was read for."""
    return query(**{item.name: getattr(read, item.name) for item in parameters_of(query)})


@dataclass(frozen=True, slots=True)
class PartOf(Generic[Q]):
    """Which part of a list is asked for, and of what list."""

    query: Q
    limit: int
    cursor: str | None


def asked(query: type[StoreQuery]) -> Any:
    """The declaration of an operation's parameters: those of a query, which the operation is called with."""
    model = with_parameters_of(query)(Parameters)

    async def read(parameters: BaseModel) -> StoreQuery:
        return query_of(query, parameters)

    read.__annotations__["parameters"] = Annotated[model, Query()]
    return Depends(read)


def asked_in_pages(query: type[StoreQuery]) -> Any:
    """The declaration of the parameters of a list in pages; the operation is called with a `PartOf` it."""
    model = with_parameters_of(query)(Paged)

    async def read(parameters: Paged) -> PartOf[StoreQuery]:
        return PartOf(query_of(query, parameters), parameters.limit, parameters.cursor)

    read.__annotations__["parameters"] = Annotated[model, Query()]
    return Depends(read)


class TenantQuery(Parameters):
    """Whose."""

    tenant: Name = Field("default", description="Whose; for a token of one tenant, that one unless named")


class Stretch(TenantQuery, Paged):
    """A stretch of a list, by a cursor, or by how many come before it."""

    offset: Annotated[int, Field(ge=0, le=1_000_000), IN_DIGITS] | Null = Field(
        None, description="Leave out so many of the first; not with `cursor`"
    )

    @property
    def place(self) -> tuple[int | None, int]:
        """The time from which the list goes on, None for its beginning, and how many are left out from there.

        Raises:
            Refusal: both a cursor and an offset are given.
        """
        if self.cursor is not None and self.offset is not None:
            raise Refusal(400, "invalid-parameter", "Wrong parameter", "offset: not taken with cursor")
        found = read_cursor(self.cursor)
        return (None, self.offset or 0) if found is None else found

    def next_after(self, found: Sequence[int]) -> str | None:
        """The cursor after the page; None where the list ends with it.

        Args:
            found: the times of the items from `place` on, one more than the page holds if there are more.
        """
        if len(found) <= self.limit:
            return None
        at_ns, skipped = self.place
        last_ns = found[self.limit - 1]
        alike = found[: self.limit].count(last_ns)
        return cursor_of(last_ns, alike + (skipped if at_ns == last_ns else 0))


OfSome = TypeVar("OfSome", bound=TenantQuery)


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[OfSome]):
    """A call of an operation on what one tenant has: what it reads from, who calls, and its query parameters."""

    sources: Sources
    caller: Caller
    query: OfSome

    @property
    def tenant(self) -> str:
        """Whose records it is about."""
        return self.query.tenant

    @property
    def store_url(self) -> str:
        """Where it changes records."""
        return self.sources.config.store_url


def in_tenant(model: type[OfSome]) -> Any:
    """The declaration of a call with these query parameters; where they name no tenant, it is the caller's own."""

    async def read(request: Request, query: Annotated[OfSome, Query()]) -> ApiCall[OfSome]:
        own = query.model_copy(update={"tenant": tenant_of(request)})
        return ApiCall(sources_of(request), token_of(request), own)

    read.__annotations__["query"] = Annotated[model, Query()]
    return Depends(read)


OfTenant: TypeAlias = Annotated[ApiCall[TenantQuery], in_tenant(TenantQuery)]


class ForcedQuery(TenantQuery):
    """Whose, and what is deleted all the same."""

    force: bool = Field(False, description="Delete it also where another experiment has it pinned as its baseline")


OfForced: TypeAlias = Annotated[ApiCall[ForcedQuery], in_tenant(ForcedQuery)]

# An operation without query parameters takes these, so that it refuses all.
NoParameters: TypeAlias = Annotated[Parameters, Query()]


async def _sources(request: Request) -> Sources:
    return sources_of(request)


ApiSources: TypeAlias = Annotated[Sources, Depends(_sources)]


async def _caller(request: Request) -> Caller:
    return token_of(request)


ApiCaller: TypeAlias = Annotated[Caller, Depends(_caller)]


async def _author(request: Request) -> Author:
    return author_of(request)


ApiAuthor: TypeAlias = Annotated[Author, Depends(_author)]


def needs(right: Right) -> Any:
    """The declaration of an operation, or of all operations of a router, that callers need `right`."""
    return Depends(NeededRight(right))


@dataclass(frozen=True, slots=True)
class NeededRight:
    """Refuses callers who lack ``right``."""

    right: Right

    async def __call__(self, request: Request) -> None:
        """Check the request. Raises as `check_right`, and as `check_tenant` if it may change something."""
        check_right(request, self.right)
        if request.method not in ("GET", "HEAD"):
            check_tenant(request)


async def refuse_repeated(request: Request) -> None:
    """Check that no query parameter is given twice, since it would be unclear which one is meant.

    Raises:
        Refusal: one is.
    """
    times = Counter(name for name, _ in request.query_params.multi_items())
    if twice := next((name for name, number in times.items() if number > 1), None):
        raise Refusal(400, "invalid-parameter", "Wrong parameter", f"{twice}: expected it once, found it twice")
