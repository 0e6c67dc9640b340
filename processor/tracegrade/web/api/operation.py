"""What one operation of the API is: from this its route, its checks and its part of the OpenAPI document are made."""

import base64
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from struct import Struct
from time import time_ns
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from tracegrade.web.sources import Sources
from tracegrade.words import duration_s

MAX_NS = 2**63 - 1

_CURSOR = Struct(">QQ")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Refusal(Exception):
    """A request that cannot be answered: becomes a problem of that type and status."""

    def __init__(self, status: int, type_: str, title: str, detail: str) -> None:
        self.status, self.type, self.title, self.detail = status, type_, title, detail
        super().__init__(detail)


def not_found(what: str) -> Refusal:
    """There is no `what`."""
    return Refusal(404, "not-found", "Not found", f"there is no {what}, or none any more")


def _time_ns(value: object) -> int:
    text = str(value).strip()
    if text.isascii() and text.isdecimal():
        if int(text) <= MAX_NS:
            return int(text)
        raise ValueError(f"expected at most {MAX_NS} ns since 1970 UTC")
    try:
        return max(0, time_ns() - round(duration_s(text) * 1e9))
    except (ValueError, OverflowError):
        pass
    # A leap second is the last second before it; RFC 3339 allows t and z in place of T and Z.
    written = text.upper().replace(":60", ":59")
    try:
        moment = datetime.fromisoformat(written)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        since_epoch = moment - _EPOCH
    except (ValueError, OverflowError):
        raise ValueError(
            "expected a time such as 2026-11-21T08:00:00Z, ns since 1970 UTC, or a duration ago such as 2h"
        ) from None
    return min(
        max(0, (since_epoch.days * 86400 + since_epoch.seconds) * 10**9 + since_epoch.microseconds * 1000), MAX_NS
    )


Time: TypeAlias = Annotated[
    int,
    BeforeValidator(_time_ns),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "integer", "minimum": 0, "maximum": MAX_NS},
                {"type": "string", "pattern": "^[1-9][0-9]{0,3}(s|m|h|d)$"},
            ]
        }
    ),
]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000)]
# In a path: a line break ends what a route looks at.
PathName: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\n]+$")]


def _trace_id(value: str) -> str:
    return value.lower()


TraceId: TypeAlias = Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$"), AfterValidator(_trace_id)]


class Query(BaseModel):
    """The parameters of an operation; one it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class Paged(Query):
    """Parameters of what comes in pages."""

    limit: int = Field(50, ge=1, le=1000, description="At most so many items")
    cursor: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{22}$")] | None = Field(
        None, description="`next` of the page before; items that came since do not shift it"
    )


class Document(BaseModel):
    """What the API answers with; every field that is documented is there, and no other."""

    model_config = ConfigDict(extra="forbid")


Item = TypeVar("Item")
Found = TypeVar("Found")


class Page(Document, Generic[Item]):
    """Some of many items, the newest first; `next` is null when there are no more."""

    items: list[Item]
    next: str | None = Field(description="The parameter `cursor` of the next page")


class Problem(BaseModel):
    """What went wrong (RFC 9457); `type` never changes."""

    type: str
    title: str
    status: int
    detail: str


def cursor_of(number: int, place: int = 0) -> str:
    """The cursor that goes on after (`number`, `place`)."""
    return base64.urlsafe_b64encode(_CURSOR.pack(number, place)).rstrip(b"=").decode()


def read_cursor(cursor: str | None) -> tuple[int, int] | None:
    """What `cursor_of` was given; None without a cursor."""
    if cursor is None:
        return None
    try:
        number, place = _CURSOR.unpack(base64.urlsafe_b64decode(cursor + "=="))
    except (NotBase64, ValueError) as error:  # pragma: no cover - the pattern lets nothing else through
        raise Refusal(400, "invalid-parameter", "Wrong cursor", f"cursor: {error}") from None
    return min(number, MAX_NS), min(place, MAX_NS)


def page_of(found: Sequence[Found], limit: int, cursor: Callable[[Found], str]) -> tuple[Sequence[Found], str | None]:
    """One page of what was `found`, and the cursor after its last item if more was found than `limit`.

    Look for one more than the limit: only so is known whether there is a next page.
    """
    shown = found[:limit]
    return shown, cursor(shown[-1]) if len(found) > limit else None


Method: TypeAlias = Literal["GET", "DELETE"]
Handler: TypeAlias = Callable[[Sources, Any, Mapping[str, str]], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    ``answer`` is called with the sources, the checked ``query`` and the checked path parameters, and gives what
    becomes JSON. ``path`` names parameters as ``{trace_id}``; ``path_types`` says what each is.
    """

    method: Method
    path: str
    id: str
    summary: str
    answer: Handler
    response: type[BaseModel]
    query: type[Query] = Query
    path_types: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    needs_store: bool = True


def checked_query(model: type[Query], given: list[tuple[str, str]]) -> Query:
    """The query's parameters.

    Raises:
        Refusal: one is wrong, unknown, or given twice.
    """
    names = [name for name, _ in given]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Refusal(400, "invalid-parameter", "Wrong parameter", f"{twice}: expected it once, found it twice")
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise _wrong(error) from None


def checked_path(operation: Operation, given: Mapping[str, str]) -> dict[str, str]:
    """The parameters in the path.

    Raises:
        Refusal: one is wrong.
    """
    checked = {}
    for name, value in given.items():
        try:
            checked[name] = TypeAdapter(operation.path_types[name]).validate_python(value)
        except ValidationError as error:
            message = error.errors(include_url=False, include_context=False)[0]["msg"]
            detail = f"{name}: {message}, found {value[:200]!r}"
            raise Refusal(400, "invalid-parameter", "Wrong parameter", detail) from None
    return checked


def _wrong(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"][:1])
    found = "" if first["type"] == "extra_forbidden" else f", found {str(first['input'])[:200]!r}"
    message = "is no parameter here" if first["type"] == "extra_forbidden" else first["msg"]
    return Refusal(400, "invalid-parameter", "Wrong parameter", f"{name}: {message}{found}")
