"""Rule files to a `RuleSet`: every mistake of every file at once, each with file, line and column."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from tracegrade.document.document import Document
from tracegrade.document.problem import FileError, Problem, did_you_mean
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import read
from tracegrade.evaluate.criteria.semantic import comparing_by
from tracegrade.plugins.installed import load_plugins
from tracegrade.rule.builtin import ALL, BUILTIN, DEFAULT, DEFAULT_RULES
from tracegrade.rule.code_files import CodeFiles, named_files
from tracegrade.rule.evaluator_file import CODE
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.semantic_model import model_in
from tracegrade.rule.warnings import Warning, warnings_of

__all__ = ["RuleSet", "builtin_rules", "load_rules", "rules_stamp"]

_KEY = re.compile(rb"^([a-z_]+):", re.MULTILINE)  # of the whole document: those of inner mappings are indented
_LOOKED_AT_BYTES = 65536


def load_rules(paths: Iterable[str | Path], *, semantic_model: str | None = None, allow_code: bool = False) -> RuleSet:
    """Read every rule at `paths`; the evaluators and dialects of installed packages are loaded before.

    Args:
        paths: rule files (of any name); folders, in which ``rule.yaml`` and ``*.rule.yaml`` count at any depth; and
            ``builtin:NAME``, a ready-made rule, a folder of them, ``all`` or ``default``. A file that is reached twice
            is read once.
        semantic_model: the folder of the model for ``$semantic``; without one, a rule that says so is refused.
        allow_code: whether an item may name a file beside its rule, whose code then runs here; else such a rule is
            refused.

    Raises:
        FileError: everything that is wrong, in order of file and line: a path without rules, a file that is not YAML
            or not a rule, two rules of one id.
        WrongValue: there is no model in `semantic_model`, or the extra for it is not installed.
        TraceGradeError: an installed package adds an evaluator or dialect that cannot be used.
    """
    load_plugins()
    with comparing_by(model_in(semantic_model)):
        return _read_rules(paths, allow_code)


def _read_rules(paths: Iterable[str | Path], allow_code: bool) -> RuleSet:
    found: list[Problem] = []
    rule_files: dict[Path, str] = {}
    folders, roots = [], []
    for path in paths:
        if Path(path).is_dir():
            folders.append(Path(path))
        roots.append(_root_of(path))
        try:
            for file in _rule_files(path):
                rule_files.setdefault(file.resolve(), str(file))
        except FileError as error:
            found.extend(error.problems)
    rules: dict[str, Rule] = {}
    documents: dict[str, Document] = {}
    for shown in rule_files.values():
        try:
            document = read(Path(shown))
            rule = validate(document, Rule, context={CODE: CodeFiles(Path(shown), roots, allow_code)})
        except FileError as error:
            found.extend(error.problems)
            continue
        if (other := documents.get(rule.id)) is not None:
            line, _ = other.position(("id",))
            found.append(
                document.problem(("id",), f"{rule.id!r} is the id of {other.path}:{line} already; ids are unique")
            )
            continue
        rules[rule.id] = rule
        documents[rule.id] = document
    if found:
        raise FileError(found)
    rule_set = RuleSet(rules.values(), documents)
    unread = [problem for place in folders for problem in _named_otherwise(place, rule_files)]
    rule_set.warnings = [*rule_set.placed(warnings_of), *unread]
    return rule_set


def named_unlike_their_folders(rule_set: RuleSet, roots: Iterable[str | Path]) -> list[Problem]:
    """Where a ``rule.yaml`` lies in a folder that has not the id of its rule as its name, and is none of `roots`."""
    of_many = {Path(root).absolute() for root in roots}

    def unlike(rule: Rule) -> Iterator[Warning]:
        file = Path(rule_set.paths[rule.id])
        place = file.absolute().parent
        if file.name == "rule.yaml" and place.name != rule.id and place not in of_many:
            to_do = f"rename one of the two, or the file to {rule.id}.rule.yaml"
            yield ("id",), f"its folder is named {place.name!r}; {to_do}"

    return rule_set.placed(unlike)


def rules_stamp(paths: Iterable[str | Path], *, allow_code: bool = False) -> tuple[object, ...]:
    """What changes when a file of the rules at `paths` is written, comes or goes; reads none of them.

    With `allow_code`, rule files are read, and the files of code that they name are looked at, too.
    """
    stamp: list[object] = []
    for path in paths:
        try:
            for file in _rule_files(path):
                stamp.append(_file_stamp(file))
                if allow_code:
                    stamp.extend(_file_stamp(beside) for beside in named_files(file) if beside.exists())
        except (FileError, OSError) as error:
            stamp.append(str(error))
    return tuple(stamp)


def _file_stamp(file: Path) -> tuple[object, ...]:
    status = file.stat()
    return str(file), status.st_mtime_ns, status.st_size, status.st_ino


def _root_of(path: str | Path) -> Path:
    """The folder within which rules at `path` may name files."""
    if str(path).startswith(BUILTIN):
        return builtin_rules().resolve()
    return (Path(path) if Path(path).is_dir() else Path(path).parent).resolve()


def builtin_rules() -> Path:
    """The folder of the ready-made rules: inside the installed package, else beside the source."""
    installed = Path(str(files("tracegrade"))) / "rules"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "rules"


@lru_cache
def ready_made_hash(rule_id: str) -> str | None:
    """The hash of the ready-made rule of this id, as it judges; None where there is none of it."""
    root = builtin_rules()
    file = next((file for file in _rules_in(root) if file.parent.name == rule_id), None)
    if file is None:
        return None
    rule = validate(read(file), Rule, context={CODE: CodeFiles(file, [root], False)})
    return rule.hash if rule.id == rule_id else None


def _rule_files(path: str | Path) -> Sequence[Path]:
    text = str(path)
    if text.startswith(BUILTIN):
        return _builtin_files(text.removeprefix(BUILTIN))
    place = Path(path)
    if place.is_dir():
        if not (inside := list(_rules_in(place))):
            raise _problem(text, "no rule in this folder; rule.yaml and *.rule.yaml count, at any depth")
        if odd := [problem for file in inside if (problem := _no_file_inside(file, place.resolve())) is not None]:
            raise FileError(odd)
        return inside
    if not place.exists():
        raise _problem(text, "no such file or folder; expected a rule file, a folder of them, or builtin:NAME")
    return [place]


def _no_file_inside(file: Path, folder: Path) -> Problem | None:
    """What is wrong with a name found in `folder`: its writer must not make us read other files, or none."""
    target = file.resolve()
    if not target.is_relative_to(folder):
        message = f"a link to {target}, which is outside this folder; expected a file, or name that one in rules.paths"
        return Problem(str(file), 1, 1, message)
    if target.exists() and not target.is_file():
        return Problem(str(file), 1, 1, "not a file but a pipe, a device or a folder; expected a rule, or another name")
    return None


def _named_otherwise(folder: Path, read_files: Collection[Path]) -> Iterator[Problem]:
    """Files in `folder` that have what every rule has, and are not read because of their names."""
    for file in _files_in(folder):
        if file.suffix in (".yaml", ".yml") and file.is_file() and file.resolve() not in read_files:
            with file.open("rb") as opened:
                keys = set(_KEY.findall(opened.read(_LOOKED_AT_BYTES)))
            if b"id" in keys and keys & {b"evaluate", b"cases"}:
                yield Problem(
                    str(file), 1, 1, "looks like a rule, but is not read: in a folder, rule.yaml and *.rule.yaml count"
                )


def _rules_in(folder: Path) -> Iterator[Path]:
    return (file for file in _files_in(folder) if file.name == "rule.yaml" or file.name.endswith(".rule.yaml"))


def _files_in(folder: Path) -> Iterator[Path]:
    """Files at any depth, in order of path; hidden folders are left out, as are links to folders."""
    for current, names in _walk(folder):
        for name in sorted(names):
            yield current / name


def folders_in(folder: Path) -> Iterator[Path]:
    """`folder`, and those in it that rules are looked for in."""
    return (current for current, _ in _walk(folder))


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    for current, folders, names in os.walk(folder):
        # Where a Kubernetes volume keeps the files that its links lead to, and where tools keep theirs.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(current), names


def _builtin_files(name: str) -> Sequence[Path]:
    root = builtin_rules()
    ready_made = list(_rules_in(root))
    chosen = [file for file in ready_made if name == ALL or name in _choosing_names(file.relative_to(root))]
    if not chosen:
        known = {ALL, *(name for file in ready_made for name in _choosing_names(file.relative_to(root)))}
        raise _problem(f"{BUILTIN}{name}", f"no such ready-made rule or folder{did_you_mean(name, known)}")
    return chosen


def _choosing_names(rule_file: Path) -> set[str]:
    """The names that choose a rule file: its folder's, and those of the folders around it."""
    own = rule_file.parent
    return {*own.parts, own.as_posix(), *([DEFAULT] if own.name in DEFAULT_RULES else ())}


def _problem(path: str, message: str) -> FileError:
    return FileError([Problem(path, 0, 0, message)])


def tests_path(rule_path: Path) -> Path:
    """Where the tests of the rule in that file stand, if it has any."""
    return rule_path.with_name(rule_path.name.removesuffix("rule.yaml") + "tests.yaml")
