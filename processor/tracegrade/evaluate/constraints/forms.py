"""The words of constraints: one class for each, with the template of Declare that it has the meaning of.

A constraint is an object whose first word says what it is: ``{before: create_order, comes: validate_user}``. The names
of Declare's templates are taken for the words, and ``{before_each: refund, comes_a_new: approve}`` is another way to
write ``{between_two: refund, comes: approve}``.

Source: Pesic, Schonenberg, van der Aalst, DECLARE: Full support for loosely-structured processes (EDOC 2007), for the
templates; what their activations are, and when they are vacuous: Maggi et al., Efficient discovery of understandable
declarative process models from event logs (CAiSE 2012).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails

from tracegrade.display import json_text
from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration
from tracegrade.document.problem import did_you_mean
from tracegrade.document.validate import message_of, spellings
from tracegrade.evaluate.constraints.agreement import Same, words_of_same
from tracegrade.evaluate.constraints.sides import KINDS_OF_SIDES, Side, SideTable, Where, rule_of, words_of
from tracegrade.evaluate.criteria.field_types import Compiler
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.wording import times

_Same: TypeAlias = Annotated[
    Same | None,
    Field(
        description="On which values the calls agree: an argument of both, several, or pairs of paths, "
        "{args.id: output.order.id}: in the call of the first word, and in the other one."
    ),
]


def _written(*keys: str) -> Any:
    """A field that may be written with any of these keys."""
    return Field(validation_alias=AliasChoices(*keys))


class Form(ParameterModel):
    """One constraint.

    ``word`` is its first, ``template`` what Declare calls it, ``says`` the sentence with the sides in their places, and
    ``side_fields`` are the fields that hold these.
    """

    word: ClassVar[str]
    template: ClassVar[str]
    says: ClassVar[str]
    side_fields: ClassVar[tuple[str, ...]]

    @classmethod
    def ways(cls) -> Sequence[Sequence[str]]:
        """The keys that it is known by, for each way to write it; the first of each is the word."""
        return [[cls.word], [cls.template]]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON Schema for editors, in which every way to write it is right, and no mixture of two."""
        found = handler(schema)
        shape = handler.resolve_ref_schema(found)
        ways = cls.ways()
        words = list(dict.fromkeys(key for way in ways for key in way))
        keys_of = {
            key: [other for other in keys if other in words] or [key]
            for keys in (spellings(name, field) for name, field in cls.model_fields.items())
            for key in keys
        }
        shape["properties"] = {
            key: described for name, described in shape["properties"].items() for key in keys_of[name]
        }
        shape["required"] = [name for name in shape["required"] if keys_of[name][0] not in words]
        shape["oneOf"] = [
            {"required": [*way], "properties": {key: False for key in words if key not in way}} for way in ways
        ]
        return found

    @property
    def sides(self) -> Sequence[Side]:
        """The calls that it speaks of."""
        return [getattr(self, name) for name in self.side_fields]

    @cached_property
    def tables(self) -> Sequence[SideTable]:
        """Its sides, ready to be looked for."""
        return [SideTable(side) for side in self.sides]

    @cached_property
    def by_name(self) -> bool:
        """Whether the names of calls, and their order, are all that decides."""
        conditions = (getattr(self, "same", None), getattr(self, "within", None))
        return conditions == (None, None) and all(table.by_name for table in self.tables)

    @property
    def sentence(self) -> str:
        """It as a person would say it, without values."""
        return self._worded(words_of)

    @property
    def rule(self) -> str:
        """It as a person would say it, with the values that it names."""
        return self._worded(rule_of)

    def _worded(self, shown: Callable[[Side], str]) -> str:
        return self.says.format(*map(shown, self.sides))


class Paired(Form):
    """A constraint on each call of the first side: another one belongs to it."""

    same: _Same = None
    within: Annotated[
        Duration | None,
        Field(gt=0, description="So long at most from the end of the earlier call to the start of the later one."),
    ] = None

    def _worded(self, shown: Callable[[Side], str]) -> str:
        same = "" if self.same is None else f" with {words_of_same(self.same)}"
        within = "" if self.within is None else f" within {self.within_text}"
        return f"{super()._worded(shown)}{same}{within}"

    @property
    def within_text(self) -> str:
        """The time limit, as ``50ms``."""
        assert self.within is not None
        return duration_text(self.within)


_Needing: TypeAlias = Annotated[Side, Field(description="The calls that need another one.")]
_Comes: TypeAlias = Annotated[Side, Field(description="The calls of which one has to come.")]


class Before(Paired):
    """Before each such call comes one of the others."""

    word, template, says = "before", "precedence", "{1} comes before every {0}"
    side_fields = ("before", "comes")
    before: _Needing = _written("before", "precedence")
    comes: _Comes


class After(Paired):
    """After each such call comes one of the others."""

    word, template, says = "after", "response", "{1} comes after every {0}"
    side_fields = ("after", "comes")
    after: _Needing = _written("after", "response")
    comes: _Comes


class RightAfter(Paired):
    """The call right after each such call is one of the others."""

    word, template, says = "right_after", "chain_response", "{1} comes right after every {0}"
    side_fields = ("right_after", "comes")
    right_after: _Needing = _written("right_after", "chain_response")
    comes: _Comes


class RightBefore(Paired):
    """The call right before each such call is one of the others."""

    word, template, says = "right_before", "chain_precedence", "{1} comes right before every {0}"
    side_fields = ("right_before", "comes")
    right_before: _Needing = _written("right_before", "chain_precedence")
    comes: _Comes


class BetweenTwo(Paired):
    """Before each such call comes a new one of the others: made since the last such call before it."""

    word, template, says = "between_two", "alternate_precedence", "a new {1} comes before every {0}"
    side_fields = ("between_two", "comes")
    between_two: _Needing = _written("between_two", "before_each", "alternate_precedence")
    comes: _Comes = _written("comes", "comes_a_new")

    @classmethod
    def ways(cls) -> Sequence[Sequence[str]]:
        """As of every `Form`."""
        return [_A_NEW, *([word, "comes"] for word in (cls.word, cls.template))]


# These two belong together: either of them beside another word would read like a weaker sentence.
_A_NEW = ("before_each", "comes_a_new")


class If(Paired):
    """Where such a call is made, one of the others is made too, before or after it."""

    word, template, says = "if", "responded_existence", "{1} comes before or after every {0}"
    side_fields = ("if_", "also")
    if_: Annotated[_Needing, Field(serialization_alias="if")] = _written("if", "responded_existence")
    also: Annotated[Side, Field(description="The calls of which one has to be made, too, before or after.")]


class Never(Form):
    """No such call is made."""

    word, template, says = "never", "absence", "{} is never called"
    side_fields = ("never",)
    never: Annotated[Side, Field(description="The calls that must not be made.")] = _written("never", "absence")


class Counted(Form):
    """A constraint on the number of calls."""

    side_fields = ("of",)
    of: Annotated[Side, Field(description="The calls that are counted.")]

    @property
    def bounds(self) -> tuple[int, int | None]:
        """How many calls at least, and at most."""
        number = self._number
        return (0 if self.word == "at_most" else number), (None if self.word == "at_least" else number)

    def _worded(self, shown: Callable[[Side], str]) -> str:
        return self.says.format(of=shown(self.of), times=times(self._number))

    @property
    def _number(self) -> int:
        number: int = getattr(self, self.word)
        return number


class AtMost(Counted):
    """No more such calls are made."""

    word, template, says = "at_most", "absence_n", "{of} is called at most {times}"
    same: _Same = None
    at_most: Annotated[int, Field(ge=0, description="How many at most; with `same`, with one value.")] = _written(
        "at_most", "absence_n"
    )

    def _worded(self, shown: Callable[[Side], str]) -> str:
        return super()._worded(shown) + ("" if self.same is None else f" with {words_of_same(self.same)}")


class AtLeast(Counted):
    """So many such calls are made, or more."""

    word, template, says = "at_least", "existence", "{of} is called at least {times}"
    at_least: Annotated[int, Field(ge=1, description="How many at least.")] = _written("at_least", "existence")


class Exactly(Counted):
    """So many such calls are made."""

    word, template, says = "exactly", "exactly_n", "{of} is called exactly {times}"
    exactly: Annotated[int, Field(ge=0, description="How many.")] = _written("exactly", "exactly_n")


def _check_two(sides: Any) -> Any:
    if not isinstance(sides, list) or len(sides) != 2:
        found = f"a list of {len(sides)}" if isinstance(sides, list) else json_text(sides)[:120]
        raise ValueError(f"expected a list of two, such as [refund, ship], of which each may be a list; found {found}")
    return sides


class NotBoth(Form):
    """Calls of one of the two sides are made, or of none."""

    word, template, says = "not_both", "not_coexistence", "{} and {} are never both called"
    same: _Same = None
    not_both: Annotated[
        list[Side], BeforeValidator(_check_two), Field(min_length=2, max_length=2, description="The two sides.")
    ] = _written("not_both", "not_coexistence")

    @property
    def sides(self) -> Sequence[Side]:
        """As of every `Form`."""
        return self.not_both

    def _worded(self, shown: Callable[[Side], str]) -> str:
        return super()._worded(shown) + ("" if self.same is None else f" with {words_of_same(self.same)}")


class First(Form):
    """The first call is such a one."""

    word, template, says = "first", "init", "the first call is {}"
    side_fields = ("first",)
    first: Annotated[Side, Field(description="What the first call is.")] = _written("first", "init")


class Last(Form):
    """The last call is such a one."""

    word, template, says = "last", "end", "the last call is {}"
    side_fields = ("last",)
    last: Annotated[Side, Field(description="What the last call is.")] = _written("last", "end")


FORMS: tuple[type[Form], ...] = (
    Before, After, RightAfter, RightBefore, BetweenTwo, Never, AtMost, AtLeast, Exactly, NotBoth, If, First, Last,
)  # fmt: skip
_FORM_OF = {way[0]: form for form in FORMS for way in form.ways()}


def _form_of(value: Any, info: ValidationInfo) -> Form:
    if isinstance(value, Form):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"expected an object such as {{before: create_order, comes: validate_user}}, found {value!r}")
    words = [key for key in value if key in _FORM_OF]
    if len(words) != 1:
        raise ValueError(_not_one_word(words, list(value)))
    form = _FORM_OF[words[0]]
    if wrong := list(_parted(value)):
        raise _refused(wrong)
    try:
        return form.model_validate(value, context=info.context)
    except ValidationError as error:
        raise _refused(_messages(error, form)) from None


def _parted(value: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each of the two words of `_A_NEW` that stands without the other, or beside another one for it."""
    found = [key for key in _A_NEW if key in value]
    if len(found) == 2 and "comes" in value:
        yield ("comes",), f"unknown key 'comes' beside {_A_NEW[1]!r}"
    if len(found) == 1:
        (other,) = {*_A_NEW} - {*found}
        yield (found[0],), f"expected {other!r} beside it"


def _refused(mistakes: Iterable[tuple[tuple[int | str, ...], str]]) -> ValidationError:
    """The error that says these mistakes, each with its place."""
    found = [
        InitErrorDetails(type="value_error", loc=_where(location), input=None, ctx={"error": ValueError(message)})
        for location, message in mistakes
    ]
    return ValidationError.from_exception_data("criteria", found)


def _messages(error: ValidationError, form: type[Form]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Each mistake with its place; a missing key is told after an unknown one beside it, and not where it is meant."""
    items = error.errors(include_url=False)
    missing: dict[tuple[int | str, ...], list[str]] = {}
    for item in items:
        if item["type"] == "missing":
            missing.setdefault(item["loc"][:-1], []).append(str(item["loc"][-1]))
    unknown = [item for item in items if item["type"] == "extra_forbidden"]
    for item in unknown:
        keys = missing.get(item["loc"][:-1], [])
        near = [key for key in keys if "did you mean" in did_you_mean(str(item["loc"][-1]), [key])]
        keys[:] = [key for key in keys if key not in near and not _is_condition(item, key)]
    for item in items:
        if item["type"] != "missing":
            keys = missing.pop(item["loc"][:-1], []) if item in unknown else []
            yield item["loc"], _mistake_text(item, form, keys)
    for location, keys in missing.items():
        for key in keys:
            yield location, f"key {key!r} is missing" + ("" if location else f"; write {_example(form)}")


def _example(form: type[Form]) -> str:
    others = [name for name in form.side_fields if name.rstrip("_") != form.word]
    return f"{{{', '.join(f'{key}: ...' for key in (form.word, *others))}}}"


def _is_condition(item: Any, missing: str) -> bool:
    """Whether a key too many is one that belongs under ``where``, which is `missing`."""
    return missing == "where" and item["loc"][-1] in Where.model_fields


def _mistake_text(item: Any, form: type[Form], missing: Sequence[str]) -> str:
    """One mistake in words; of a key too many, that a word by itself takes none, and what is `missing` beside it."""
    key = item["loc"][-1]
    if item["type"] == "extra_forbidden":
        if len(item["loc"]) == 1 and len(form.model_fields) == 1:
            return f"unknown key {key!r}; {form.word!r} takes no other key"
        if len(item["loc"]) > 1 and key in Where.model_fields:
            return f"unknown key {key!r}; write it under 'where': {{tool: ..., where: {{{key}: ...}}}}"
        if missing:  # it was rather meant for that than for what it is most like
            return f"unknown key {key!r}; " + "; ".join(f"key {each!r} is missing" for each in missing)
    return message_of(item, form)


def _where(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    return tuple(step for step in location if step not in KINDS_OF_SIDES)


def _not_one_word(words: list[str], keys: list[Any]) -> str:
    if words:
        return f"found {' and '.join(repr(word) for word in words)} in one constraint; write a constraint for each"
    if meant := next((hint for key in keys if (hint := did_you_mean(key, _FORM_OF))), ""):
        return f"no constraint begins with {' or '.join(map(repr, keys))}{meant}"
    known = ", ".join(form.ways()[0][0] for form in FORMS)
    return f"expected one of {known}, found {' and '.join(map(repr, keys)) or 'no key'}"


class _Shapes:
    """Writes the JSON Schema of a constraint for editors: one shape for each word."""

    def __get_pydantic_json_schema__(self, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"oneOf": [handler(form.__pydantic_core_schema__) for form in FORMS]}


Constraint: TypeAlias = Annotated[
    Form, Compiler(_form_of), PlainSerializer(lambda form: form.model_dump(by_alias=True, exclude_none=True)), _Shapes()
]
