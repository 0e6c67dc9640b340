"""Two recorded files beside each other: what differs, by kind, with examples."""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = dict[str, Any]
_WORDS = frozenset({"explanation", "reason"})
_SCORED = frozenset({"pass", "fail"})
_EXAMPLES = 3


@dataclass(slots=True)
class Differences:
    """Differences by kind; `decided` are wanted ones: not evaluable before, and now the same at both ends."""

    lines: int = 0
    words: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, where: str) -> None:
        """A difference that is not wanted, with where it is."""
        self.others[kind] += 1
        if len(self.examples[kind]) < _EXAMPLES:
            self.examples[kind].append(where)


def compared(before: Path, after: Path) -> Differences:
    """What differs between two recorded files; a source that one of them lacks differs in all its lines."""
    found = Differences()
    earlier, later = _texts_by_source(before), _texts_by_source(after)
    for source in earlier.keys() | later.keys():
        old, new = (_by_key(texts.get(source, ())) for texts in (earlier, later))
        for key in old.keys() | new.keys():
            found.lines += 1
            _compare(found, key, old.get(key), new.get(key))
    return found


def _texts_by_source(path: Path) -> dict[str, list[str]]:
    """The lines of each source, as text, since all of them as objects take too much memory."""
    texts: dict[str, list[str]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for text in file:
            texts[json.loads(text)["source"]].append(text)
    return texts


def _by_key(texts: Iterable[str]) -> dict[str, Line]:
    return {_key(line): line for line in map(json.loads, texts)}


def _key(line: Line) -> str:
    names = ("source", "file", "trace", "session", "revision", "rule", "subject", "vector")
    return " ".join(f"{name} {line[name]}" for name in names if name in line)


def _compare(found: Differences, key: str, old: Line | None, new: Line | None) -> None:
    if old is None or new is None:
        found.add("only after" if old is None else "only before", key)
        return
    parts = [("decision", old, new)]
    earlier, later = (
        {(one["evaluation"], one["case"]): one for one in line.pop("evaluations", ())} for line in (old, new)
    )
    parts += [(one["evaluator"], one, later.get(name, {})) for name, one in earlier.items()]
    parts += [(one["evaluator"], {}, one) for name, one in later.items() if name not in earlier]
    for of, one, other in parts:
        _compare_part(found, of, key, one, other)


def _compare_part(found: Differences, of: str, key: str, old: Line, new: Line) -> None:
    if _is_decided(old, new):
        found.decided[of] += 1
        return
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) == new.get(name):
            continue
        if name in _WORDS and bool(old.get(name)) == bool(new.get(name)):
            found.words[f"{of}: {name}"] += 1
        else:
            found.add(f"{of}: {name}", f"{key}: {old.get(name)!r} -> {new.get(name)!r}")


def _is_decided(old: Line, new: Line) -> bool:
    return (old.get("outcome") == "not_evaluable" and new.get("outcome") in _SCORED) or (
        old.get("kind") == "not_evaluable" and new.get("kind") == "evaluated"
    )
