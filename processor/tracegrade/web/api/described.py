"""Models of the API that are made from records, whose classes say what the members of their JSON are."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, create_model

from tracegrade.model.field_schema import RecordField, record_fields

Model = TypeVar("Model", bound=BaseModel)


def described_by(record: type, **objects: Any) -> Callable[[type[Model]], type[Model]]:
    """Give a model a field for each member that the JSON of a record has.

    Args:
        record: the class of the record.
        objects: the types of those members that have models of their own, by name.
    """
    members = {item.name.partition(".")[0]: item for item in record_fields(record)}
    described: dict[str, Any] = {name: (objects.get(name, _type(item)), _field(item)) for name, item in members.items()}

    return with_fields(described)


def with_fields(fields: Mapping[str, Any]) -> Callable[[type[Model]], type[Model]]:
    """Give a model these fields, each a type and a default, after those of its own."""

    def made(model: type[Model]) -> type[Model]:
        return create_model(
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **dict(fields)
        )

    return made


def _field(item: RecordField) -> Any:
    if "." in item.name:  # a member of an object, whose model describes it
        return Field()
    if not (meaning := item.spec.meaning):
        return Field()
    described = f"{meaning[:1].upper()}{meaning[1:]}{', ns since 1970 UTC' * item.spec.is_time}"
    return Field(None, description=described) if item.spec.optional else Field(description=described)


def _type(item: RecordField) -> Any:
    kind = _json_type(item.type)
    return kind | None if item.spec.optional else kind


def _json_type(kind: Any) -> Any:
    """The type in JSON of values of a type."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, str | ForwardRef):  # JsonValue, which refers to itself
        return Any
    if origin is Literal:
        return str
    if origin is None:
        return str if kind is bytes else kind
    if origin in (Union, UnionType):
        return reduce(or_, map(_json_type, parts))
    named = {Mapping: dict, Sequence: list}.get(origin, origin)
    return named[tuple(map(_json_type, parts))]
