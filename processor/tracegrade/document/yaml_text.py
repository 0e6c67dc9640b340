"""YAML as text: parsed with the position of every part, and written.

Takes YAML 1.2 core types (``on`` and ``0o14`` stay what they look like), refuses duplicate keys, aliases, merges and
deep nesting.
"""

import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Never

import yaml
from yamlcore import CoreLoader

from tracegrade.model.errors import WrongValue

try:
    from yamlcore import CCoreLoader as _Loader
except ImportError:  # PyYAML without libyaml: the same language, slower
    _Loader = CoreLoader

from tracegrade.document.document import Document, Place
from tracegrade.document.problem import FileError, Location, Problem, UnsetError
from tracegrade.model.json_value import JsonValue

_PLAIN_COLLECTIONS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})

MAX_NESTING = 64
MAX_NODES = 200_000
# By what the parser says, of libyaml and of PyYAML, what has usually happened, and what to do.
_TO_DO = {
    "mapping values are not allowed": "quote a text that has ': ' in it, or check the indentation",
    "found undefined alias": "quote a text that begins with '*'",
    "expected '-' indicator": "check the indentation: all of an item stands as far right as its first key",
    "expected <block end>": "check the indentation: all of an item stands as far right as its first key",
    "did not find expected key": "check the indentation, and the quotes of the line above",
    "could not find expected ':'": "check the indentation, and the quotes of the line above",
    "unknown escape character": "in double quotes a backslash stands twice; write the text in single quotes",
    "expected ',' or": "close the bracket, or quote a text that has brackets or commas in it",
    "unexpected end of stream": "close the quotes",
    "another document": "remove '---': a file holds one",
}
_HARMLESS_LENGTH = 16_384  # a text this short cannot nest deep enough to exhaust the C stack


def parse(
    text: str,
    path: str,
    *,
    expand_env: bool = False,
    environment: Mapping[str, str] | None = None,
    allow_unset: bool = False,
) -> Document:
    """Parse one YAML document.

    Args:
        text: the file's content.
        path: named in errors.
        expand_env: replace ``${env:NAME}`` and ``${env:NAME:-default}`` (``$$`` is a literal dollar). A value that is
            one whole reference is typed as YAML after the replacement; inside a longer text it stays text.
        environment: where names are looked up, `os.environ` when omitted.
        allow_unset: read a value that names an unset variable as null, and list it in `Document.unset`.

    Raises:
        FileError: not YAML, duplicate keys, aliases, merge keys, keys that are not text, too deep or too large, unset
            environment variables without a default.
    """
    loader = _Loader(text)
    try:
        if len(text) > _HARMLESS_LENGTH:
            _refuse_deep_nesting(text, path, _Loader)
        node = loader.get_single_node()
        composer = _Composer(
            loader, path, dict(environment if environment is not None else os.environ) if expand_env else None
        )
        value, place = composer.build(node, ()) if node is not None else (None, Place(1, 1))
        if composer.unset and not allow_unset:
            raise UnsetError(composer.unset.values())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # At the end of the file, libyaml points after it; people look for the last thing they wrote.
        position = min(mark.index, len(text.rstrip())) if mark else 0
        line, column = _line_and_column(text, position)
        reason = error.problem or error.context or ""
        if "maximum nesting depth" in reason:  # libyaml's own bound, which it looks at before it says what it read
            with suppress(yaml.MarkedYAMLError):  # this parser may find something else wrong before that
                _refuse_deep_nesting(text, path, CoreLoader)
        if reason.startswith("but ") and error.context:  # the second half of a sentence
            reason = f"{error.context} {reason}"
        raise FileError([Problem(path, line, column, f"not YAML: {reason}{_to_do(reason, text[position:])}")]) from None
    except yaml.reader.ReaderError as error:
        line, column = _line_and_column(text, error.position)
        raise FileError([Problem(path, line, column, f"not YAML: {error.reason}")]) from None
    except RecursionError:
        raise FileError([Problem(path, 1, 1, f"nested more than {MAX_NESTING} deep")]) from None
    finally:
        loader.dispose()
    return Document(path, value, place, composer.unset, text)


def _to_do(reason: str, rest: str) -> str:
    """Advice on the parser's error, where there is any; `rest` is the text from there on."""
    if rest.startswith("\t"):
        return "; indent with spaces, not with tabs"
    if "cannot start any token" in reason:
        return f"; quote a text that begins with {rest[:1]!r}"
    return next((f"; {to_do}" for said, to_do in _TO_DO.items() if said in reason), "")


def _refuse_deep_nesting(text: str, path: str, loader: Any) -> None:
    """Refuse what would exhaust the stack: libyaml builds nodes by recursion, in C, where no Python limit holds."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_NESTING + 1:  # the outermost stands at depth 0
                mark: Any = event.start_mark
                raise FileError([Problem(path, mark.line + 1, mark.column + 1, f"nested more than {MAX_NESTING} deep")])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def read(path: Path, *, expand_env: bool = False, allow_unset: bool = False) -> Document:
    """`parse` the file at `path`; raises FileError also when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError([Problem(str(path), 1, 1, f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        raise FileError([Problem(str(path), 1, 1, f"not UTF-8 at byte {error.start}")]) from None
    return parse(text, str(path), expand_env=expand_env, allow_unset=allow_unset)


class _Dumper(yaml.SafeDumper):
    """Writes what `read` reads as it was: texts in quotes unless they are plain words, no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_PLAIN_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_-]*( [A-Za-z][A-Za-z0-9_-]*)*")
_NO_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    is_plain = _PLAIN_WORDS.fullmatch(text) is not None and text.lower() not in _NO_WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _write_text)


def dumped(value: object) -> str:
    """`value` as the text of a YAML file that `read` reads as the same value; members in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Composer:
    """Builds the plain value of a node tree and the place of every part; notes which name unset variables."""

    def __init__(self, loader: Any, path: str, environment: Mapping[str, str] | None) -> None:
        self._loader = loader
        self._path = path
        self._environment = environment
        self._seen: set[int] = set()
        self.unset: dict[Location, Problem] = {}

    def build(self, node: Any, location: Location, shown_at: Any = None) -> tuple[JsonValue, Place]:
        """The value of `node` and its place, which is the place of the node `shown_at` where there is one."""
        if id(node) in self._seen:
            self._refuse(node, "an alias (*name) is not allowed here; write the value out")
        if len(location) > MAX_NESTING:
            self._refuse(node, f"nested more than {MAX_NESTING} deep")
        self._seen.add(id(node))
        if len(self._seen) > MAX_NODES:
            self._refuse(node, f"more than {MAX_NODES} values in one file")
        mark = (shown_at or node).start_mark
        line, column = mark.line + 1, mark.column + 1
        if isinstance(node, yaml.ScalarNode):
            return self._build_scalar(node, location), Place(line, column)
        if node.tag not in _PLAIN_COLLECTIONS:
            self._refuse(node, f"expected a plain object or list, found the tag {node.tag!r}; remove it")
        members: dict[str | int, Place] = {}
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, location, members), Place(line, column, members)
        items: list[JsonValue] = []
        for number, item in enumerate(node.value):
            value, members[number] = self.build(item, (*location, number))
            items.append(value)
        return items, Place(line, column, members)

    def _build_mapping(self, node: Any, location: Location, members: dict[str | int, Place]) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
                shown = repr(key_node.value) if isinstance(key_node, yaml.ScalarNode) else f"a {key_node.id}"
                self._refuse(key_node, f"expected a text as key, found {shown}; quote it")
            key = key_node.value
            if key in found:
                self._refuse(key_node, f"duplicate key {key!r}")
            # Errors point at the key: that is what people look for.
            found[key], members[key] = self.build(value_node, (*location, key), key_node)
        return found

    def _build_scalar(self, node: Any, location: Location) -> JsonValue:
        if self._environment is not None and "$" in node.value:
            try:
                text, whole = expand(node.value, self._environment, lambda message: self._refuse(node, message))
            except WrongValue as error:
                self.unset[location] = self._problem(node, str(error))
                return None
            if whole and not node.style:  # libyaml says '', PyYAML None for a plain scalar
                tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))
                node = yaml.ScalarNode(tag, text, node.start_mark, node.end_mark)
            else:
                return text
        try:
            value: Any = self._loader.construct_object(node)
        except (ValueError, yaml.YAMLError):
            self._refuse(node, f"cannot read {node.value[:80]!r} as {node.tag.rpartition(':')[2]}")
        if value is not None and not isinstance(value, bool | int | float | str):
            self._refuse(node, f"values of type {type(value).__name__} are not allowed; quote it")
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse(node, f"expected a finite number, found {node.value[:80]!r}; quote it if it is a text")
        return value

    def _refuse(self, node: Any, message: str) -> Never:
        raise FileError([self._problem(node, message)])

    def _problem(self, node: Any, message: str) -> Problem:
        return Problem(self._path, node.start_mark.line + 1, node.start_mark.column + 1, message)


_REFERENCE = re.compile(r"\$\$|\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{([^}]*)\}")


def expand(text: str, environment: Mapping[str, str], refuse: Any) -> tuple[str, bool]:
    """`text` with its environment references replaced, and whether all of it was one reference.

    Raises:
        WrongValue: a variable is not set. Whatever else is wrong goes to `refuse`, which raises.
    """
    whole = (match := _REFERENCE.fullmatch(text)) is not None and match.group() != "$$"

    def replace(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        name, default, other = match.groups()
        if name is None:
            refuse(f"expected ${{env:NAME}} or ${{env:NAME:-default}}, found '${{{other}}}'; write $$ for a dollar")
        found = environment.get(name, default)
        if found is None:
            message = f"environment variable {name} is not set; set it, or give a default: ${{env:{name}:-default}}"
            raise WrongValue(message)
        return str(found)

    return _REFERENCE.sub(replace, text), whole
