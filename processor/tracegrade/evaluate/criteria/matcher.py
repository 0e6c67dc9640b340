"""What a matcher is: one word after ``$``, the class that holds it, and how its argument is read."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Never, Self, TypeAlias

from tracegrade.evaluate.criteria.expected import Expected, MatcherError, Path
from tracegrade.evaluate.json_values import excerpt
from tracegrade.model.json_value import JsonValue

# Compiles a criterion that stands inside a matcher's argument.
Compile: TypeAlias = Callable[[JsonValue, Path], Expected]


class Matcher(Expected):
    """A criterion that many values meet.

    ``word`` is its name in rules, ``argument`` what stands behind it, ``summary`` when it holds: the table in the
    documentation is made of these.
    """

    word: ClassVar[str]
    argument: ClassVar[str]
    summary: ClassVar[str]
    __slots__ = ()

    def __init__(self, argument: JsonValue) -> None:
        super().__init__({self.word: argument})

    @property
    def written(self) -> Any:
        """Its argument as it is written, with all options."""
        source: Any = self.source
        return source[self.word]

    @abstractmethod
    def in_words(self) -> str:
        """What it expects of a value, as in ``rules explain``, to stand after its name: ``is at least 100``."""

    @classmethod
    @abstractmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """The matcher of `argument`.

        Args:
            argument: what stands behind the word.
            path: where it stands, for errors.
            compile: for criteria inside of it.

        Raises:
            MatcherError: `argument` is not what the word takes.
        """


def refuse_argument(path: Path, expected: str, found: JsonValue) -> Never:
    """Say what a matcher takes.

    Raises:
        MatcherError: always.
    """
    raise MatcherError(path, f"expected {expected}, found {excerpt(found, 80)}")


def read_options(
    argument: JsonValue, path: Path, required: str, optional: str, default: float, expected: str
) -> tuple[JsonValue, float]:
    """An argument that is a value, or ``{required: value, optional: number from 0}``.

    Raises:
        MatcherError: `argument` is an object of other keys, or the option is no number from 0.
    """
    if not isinstance(argument, dict):
        return argument, default
    if required not in argument or not argument.keys() <= {required, optional}:
        refuse_argument(path, expected, argument)
    option = argument.get(optional, default)
    if isinstance(option, bool) or not isinstance(option, int | float) or option < 0:
        refuse_argument((*path, optional), "a number of at least 0", option)
    return argument[required], float(option)
