"""Who else could have code run: the files and folders of rules that others can write, where code of rules runs."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tracegrade.rule.builtin import BUILTIN
from tracegrade.rule.load import folders_in
from tracegrade.rule.rule_set import RuleSet

_MOST_NAMED = 3


def code_files_of(rule_set: RuleSet) -> list[str]:
    """The files of code that the rules run, each once, as their rules' paths are written."""
    found = {
        os.path.normpath(Path(rule_set.paths[rule.id]).parent / written)
        for rule in rule_set.rules
        if rule.id in rule_set.paths
        for written in rule.code
    }
    return sorted(found)


def open_to_others(paths: Iterable[str], rule_set: RuleSet) -> Iterator[str]:
    """A warning, if other users of this machine can write what the rules at `paths`, which are `rule_set`, run.

    Their folders count, too: in one that is open, anybody can put a rule. Others are everybody, and the group of a file
    where that is not the group of this process. What a read-only file system holds is written by nobody.
    """
    if os.name != "posix":
        return
    own = [path for path in map(str, paths) if not path.startswith(BUILTIN)]
    folders = [folder for path in own for folder in _folders_of(Path(path))]
    files = [*rule_set.paths.values(), *code_files_of(rule_set)]
    found = [str(place) for place in dict.fromkeys((*folders, *map(Path, files))) if _is_open(place)]
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        yield (
            f"rules.allow_code is true, and other users can write {', '.join(found[:_MOST_NAMED])}{more}: whoever can "
            "write there has code run here; take the right away with 'chmod go-w', or set rules.allow_code: false"
        )


def _folders_of(path: Path) -> Iterable[Path]:
    return folders_in(path) if path.is_dir() else [path.parent]


def _is_open(place: Path) -> bool:
    try:
        status = place.stat()
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            return False
    except OSError:  # it has gone since
        return False
    of_group = bool(status.st_mode & 0o020) and status.st_gid != os.getgid()
    return of_group or bool(status.st_mode & 0o002)
