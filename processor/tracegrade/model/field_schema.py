"""Records that describe their own fields, so that a field is written once.

The JSON of a record, its model in the API, its Parquet columns and their documentation are made from its class: a
dataclass whose fields are shown where their type is `Annotated` with `FieldSpec`, or with `FLATTENED`; where no field
is, all are. A class may say in ``JSON_ORDER`` which names come first in its JSON, in this order; without, they are in
the order of the fields.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from itertools import groupby
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

from tracegrade.model.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The field is shown wherever the record is.

    Attributes:
        meaning: what the field holds, as the documentation says it.
        name: in JSON, where it is not the field's own; ``a.b`` is the member b of an object a.
        is_time: it is a time, ns since 1970 UTC.
        optional: JSON leaves the field out where it has its default.
        is_value: it holds values of traces, which not everyone may see.
        is_long: its texts may be long.
        column: its name in Parquet, where it is not that in JSON; None where it has no column.
        in_column: what the documentation of the column says after the meaning.
    """

    meaning: str = ""
    name: str = ""
    is_time: bool = False
    optional: bool = False
    is_value: bool = False
    is_long: bool = False
    column: str | None = ""
    in_column: str = ""


FLATTENED: Final = "flattened"
"""The field is a record, whose fields are shown among those of the record that holds it."""


class RecordField(NamedTuple):
    """One shown field.

    Attributes:
        path: the attributes that lead to it, with dots between them.
        name: in JSON, as in `FieldSpec`.
        type: its type, without what `Annotated` adds.
        spec: what its class says of it.
        default: its default; `dataclasses.MISSING` without one.
    """

    path: str
    name: str
    type: Any
    spec: FieldSpec
    default: Any

    @property
    def column(self) -> str | None:
        """The name of its column; None without one."""
        return None if self.spec.column is None else self.spec.column or self.name.replace(".", "_")


@cache
def own_fields(record: type) -> tuple[RecordField, ...]:
    """The shown fields of a class, in their order, without those of records within."""
    return tuple(
        RecordField(field.name, spec.name or field.name, get_args(field.type)[0], spec, _default(field))
        for field in fields(record)
        for spec in _said_of(field)
        if isinstance(spec, FieldSpec)
    ) or tuple(
        RecordField(field.name, field.name, field.type, FieldSpec(), _default(field))
        for field in fields(record)
        if not any(FLATTENED in _said_of(other) for other in fields(record))
    )


@cache
def record_fields(record: type) -> tuple[RecordField, ...]:
    """The shown fields of a class and of the records within it, in the order of its JSON."""
    found = list(own_fields(record))
    for field in fields(record):
        if FLATTENED in _said_of(field):
            inner = record_fields(get_args(field.type)[0])
            found += [item._replace(path=f"{field.name}.{item.path}") for item in inner]
    first: Sequence[str] = getattr(record, "JSON_ORDER", ())
    places = {name: place for place, name in enumerate(first)}
    return tuple(sorted(found, key=lambda item: places.get(item.name.partition(".")[0], len(places))))


def json_of(record: object) -> dict[str, JsonValue]:
    """The documented JSON object of a record."""
    kind: Any = type(record)
    return _json_form(kind)(record)


def rows_of(names: Iterable[str], **convert: Callable[[Any], Any]) -> Callable[[Iterable[Any]], list[tuple[Any, ...]]]:
    """A function that makes of each record the tuple of these attributes, each converted by its name if not None."""
    # Written out, since the interpreter reads attributes so three times as fast as `operator.attrgetter` does.
    values = "".join(
        f"None if record.{name} is None else {name}(record.{name}), " if name in convert else f"record.{name}, "
        for name in names
    )
    made: Callable[[Iterable[Any]], list[tuple[Any, ...]]] = eval(
        f"lambda records: [({values}) for record in records]", convert
    )
    return made


@cache
def _json_form(record: Any) -> Callable[[Any], dict[str, JsonValue]]:
    known: dict[str, Any] = {}  # what the text of the function refers to
    members, items = [], record_fields(record)
    for name, group in groupby(items, lambda item: item.name.partition(".")[0]):
        parts = {item.name.partition(".")[2]: _value(item, known) for item in group}
        value = parts.get("") or f"{{{', '.join(f'{inner!r}: {text}' for inner, text in parts.items())}}}"
        members.append(f"{name!r}: {value}")
    holders = sorted({item.path.rpartition(".")[0] for item in items} - {""})
    lines = [f"{_local(holder)} = record.{holder}" for holder in holders]
    exec("\n ".join(["def form(record):", *lines, f"return {{{', '.join(members)}}}"]), known)
    optional = [(item.name, item.default) for item in items if item.spec.optional]
    return _without_defaults(known["form"], optional) if optional else known["form"]


def _local(holder: str) -> str:
    """The variable for the record at a path; ``record`` for the one whose JSON is made."""
    return f"record_{holder.replace('.', '_')}" if holder else "record"


def _without_defaults(
    form: Callable[[Any], dict[str, JsonValue]], optional: Sequence[tuple[str, Any]]
) -> Callable[[Any], dict[str, JsonValue]]:
    def made(record: Any) -> dict[str, JsonValue]:
        found = form(record)
        for name, default in optional:
            if found[name] == default:
                del found[name]
        return found

    return made


def _value(item: RecordField, known: dict[str, Any]) -> str:
    """The expression for the JSON value of a field."""
    holder, _, name = item.path.rpartition(".")
    value, convert = f"{_local(holder)}.{name}", _conversion(item.type)
    if convert is None:
        return value
    known[converter := f"convert_{len(known)}"] = convert
    return f"{converter}({value})"


def _conversion(kind: Any) -> Callable[[Any], Any] | None:
    """What makes the JSON of a value of this type; None for one that is JSON as it is."""
    if is_dataclass(kind):
        return json_of
    own: Callable[[Any], Any] | None = getattr(kind, "to_json", None)
    if own is not None:  # a named tuple
        return own
    inner = [_conversion(part) for part in get_args(kind)]
    if NoneType in get_args(kind):
        convert = next(filter(None, inner), None)
        return convert and (lambda value: None if value is None else convert(value))
    if get_origin(kind) in (list, Sequence) and (of_item := inner[0]) is not None:
        return lambda values: [of_item(value) for value in values]
    if get_origin(kind) is Mapping and (of_value := inner[1]) is not None:
        return lambda values: {key: of_value(value) for key, value in values.items()}
    if get_args(kind)[:1] == (bytes,):
        return lambda values: {key.hex(): value for key, value in values.items()}
    return None


def _said_of(field: Field[Any]) -> tuple[Any, ...]:
    return get_args(field.type)[1:] if get_origin(field.type) is Annotated else ()


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
