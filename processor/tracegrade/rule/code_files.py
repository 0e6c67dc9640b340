"""Reads and runs the evaluators in files beside rules, as far as the settings allow it.

Such a file is run once for each content that it has had, under a name of its own: rules that were read before a change
keep the evaluator that they were read with. Nothing of it is found by `import`.
"""

import ast
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.model.errors import WrongValue
from tracegrade.model.short_hash import short_hash
from tracegrade.plugins.evaluators import checked, mistake_in
from tracegrade.rule.evaluator_file import (
    FILE_FORM,
    EvaluatorFile,
    StillRunning,
    bug_text,
    ending,
    evaluator_name,
    named_line,
    one_form,
)

MEMBER = "EVALUATOR"
"""The name in the file that stands for its evaluator."""

MAX_BYTES = 1024 * 1024

_NAMED = re.compile(FILE_FORM.encode())


class CodeFiles:
    """The files that one rule file may name."""

    def __init__(self, rule_file: Path, roots: Sequence[Path], allowed: bool) -> None:
        """Of the rule in `rule_file`; in that of `roots`, folders of rules, in which it lies; if `allowed` at all."""
        self._folder = rule_file.parent
        self._roots = roots
        self._allowed = allowed

    def __call__(self, named: str) -> EvaluatorFile:
        """The evaluator in the file that the rule names: `evaluator_file.FindFile`.

        Raises:
            WrongValue: it must not be run, is not there, or holds no evaluator.
        """
        if not re.fullmatch(FILE_FORM, named):
            raise WrongValue(
                "expected the name of an evaluator, or a file beside the rule such as ./amounts.py (lower-case words "
                f"joined by '_', in folders of letters, digits and _ . -), found {named!r}"
            )
        if not self._allowed:
            raise WrongValue(
                f"{named} is code, which runs only with 'rules.allow_code: true', found false; if you trust whoever "
                "can write the rules, set it in the settings, or give 'tracegrade rules' the option --allow-code, or "
                "pytest the setting tracegrade_allow_code"
            )
        written = one_form(named)
        place = self._place(written)
        return _evaluator_in(written, place, _content(written, place))

    def _place(self, written: str) -> Path:
        inside = self._folder.resolve()  # here, as few rules name a file
        roots = [root for root in self._roots if inside.is_relative_to(root)]
        place = (inside / written).resolve()
        if not any(place.is_relative_to(root) for root in roots):
            root = roots[0] if roots else self._folder
            raise WrongValue(
                f"{written} leads to {place}, which is outside of the folder of rules {root}; expected a file in it, "
                "or name a folder for the rules that holds both"
            )
        return place


def named_files(rule_file: Path) -> list[Path]:
    """Where the files would be that the text of a rule seems to name; more than it does, where comments name some."""
    try:
        text = rule_file.read_bytes()
    except OSError:
        return []
    names = sorted({found.group().decode() for found in _NAMED.finditer(text)})
    return [rule_file.parent / name for name in names]


def _content(written: str, place: Path) -> bytes:
    if not place.exists():
        raise WrongValue(f"{written}: there is no file {place}")
    if not place.is_file():
        raise WrongValue(f"{written}: not a file but a folder, a pipe or a device; expected a Python file")
    try:
        with place.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise WrongValue(f"{written}: cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_BYTES:
        raise WrongValue(f"{written}: larger than {MAX_BYTES} bytes")
    return content


def _evaluator_in(written: str, place: Path, content: bytes) -> EvaluatorFile:
    try:
        found, line = _run(str(place), content)
    except SyntaxError as error:
        raise WrongValue(f"{_position(written, str(place), error)}: {type(error).__name__}: {error.msg}") from None
    except (Exception, SystemExit, StillRunning) as bug:  # running it runs anything
        where = named_line(written, str(place), bug)
        raise WrongValue(f"{where}: cannot be loaded: {bug_text(bug)}") from None
    if found is None:
        raise WrongValue(f"{written}: no {MEMBER} in it; expected {MEMBER} = Evaluator(...), as of a package")
    if (mistake := _mistake_in(found, evaluator_name(written))) is not None:
        raise WrongValue(f"{written}{line}: {MEMBER}: {mistake}")
    evaluator = replace(found, score=checked(found))
    return EvaluatorFile(evaluator, written, short_hash(content), str(place))


def _mistake_in(found: object, name: str) -> str | None:
    if not isinstance(found, Evaluator):
        return f"expected {Evaluator.__module__}.Evaluator, found {type(found).__name__}"
    if found.name != name:
        return f"name: expected {name!r}, as the file is called, found {found.name!r}"
    return mistake_in(found)


def _position(written: str, place: str, error: SyntaxError) -> str:
    if error.filename != place:  # of something else that it compiled
        return named_line(written, place, error)
    column = f":{error.offset}" if error.offset else ""
    return f"{written}:{error.lineno}{column}" if error.lineno else written


@lru_cache(maxsize=256)
def _run(place: str, content: bytes) -> tuple[Any, str]:
    """What the file says is its evaluator, None for nothing, and where: ``:12``."""
    tree = ast.parse(content, place)
    # Two files, and two versions of one, have nothing in common; models look for their annotations in sys.modules.
    name = f"tracegrade_rule_code_{blake2b(place.encode() + b'|' + content, digest_size=16).hexdigest()}"
    module = ModuleType(name)
    module.__file__, module.__package__ = place, ""  # part of no package
    sys.modules[name] = module
    try:
        code = compile(tree, place, "exec", dont_inherit=True)
        with ending(place):
            exec(code, module.__dict__)  # what rules.allow_code allows
    except BaseException:
        del sys.modules[name]
        raise
    return getattr(module, MEMBER, None), _line_of(tree)


def _line_of(tree: ast.Module) -> str:
    for statement in reversed(tree.body):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == MEMBER for target in targets):
            return f":{statement.lineno}"
    return ""
