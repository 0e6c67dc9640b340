"""Pages as programs: the files that a page shows are written, the commands that it shows are run.

What a page may hold, in order:

- a ``code-block`` with a caption: a file of that name with that text. ``FILE, at the end``: added to the file. Of the
  language ``diff``: lines of the file with a space or ``-`` in front become those with a space or ``+``.
  ``PROGRAM prints``: what a program that was started prints in the end.
- a ``console`` block: each line after ``$`` is a command, the lines below it are what it prints.
- "Stop `NAME` with Ctrl-C": that program is stopped.

In what is printed, ``...`` stands for any lines. Spaces, rulers of tables and empty lines do not count; ids, times,
durations and percentages of intervals may differ, but one id is always the same id.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_STEP = re.compile(
    r"^```\{code-block\} (?P<language>\w+)\n:caption: (?P<caption>[^\n]+)\n\n(?P<text>.*?)^```$"
    r"|^```console\n(?P<console>.*?)^```$"
    r"|Stop `(?P<stop>\w+)` with Ctrl-C",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Write:
    """A file to be written, or added to."""

    path: str
    text: str
    at_the_end: bool = False

    def apply(self, folder: Path) -> None:
        """Write it below `folder`."""
        path = folder / self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.read_text() + self.text if self.at_the_end else self.text)


@dataclass(frozen=True)
class Change:
    """A part of a file to be replaced."""

    path: str
    before: str
    after: str

    def apply(self, folder: Path) -> None:
        """Make it in the file below `folder`; its place must be there, once."""
        path = folder / self.path
        text = path.read_text()
        assert text.count(self.before) == 1, f"{self.path}: {text.count(self.before)} times:\n{self.before}"
        path.write_text(text.replace(self.before, self.after))


@dataclass(frozen=True)
class Command:
    """A command to be run, and the lines that it prints."""

    line: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Stop:
    """A program to be stopped."""

    name: str


@dataclass(frozen=True)
class Prints:
    """What a program that was started prints in the end."""

    program: str
    shown: tuple[str, ...]


Step = Write | Change | Command | Stop | Prints


def steps(page: str) -> Iterator[Step]:
    """What docs/`page` says to do, in order."""
    for found in _STEP.finditer((ROOT / "docs" / page).read_text(encoding="utf-8")):
        if found["stop"]:
            yield Stop(found["stop"])
        elif found["console"] is not None:
            yield from _commands(found["console"])
        else:
            yield _file(found["language"], found["caption"], found["text"])


def _file(language: str, caption: str, text: str) -> Step:
    name, _, more = caption.partition(", ")
    if language == "diff":
        before, after = (
            "".join(line[1:] + "\n" for line in text.splitlines() if line[0] in f" {sign}") for sign in "-+"
        )
        return Change(caption, before, after)
    if caption.endswith(" prints"):
        return Prints(caption.removesuffix(" prints"), tuple(text.splitlines()))
    assert more in ("", "at the end"), caption
    return Write(name, text, at_the_end=more != "")


def _commands(console: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        yield Command(line, tuple(shown))


# What differs from run to run, longest first.
_VARIES = re.compile(
    r"(?P<id>\b[0-9a-f]{32}\b|(?<!rule set )\b[0-9a-f]{16}\b)"  # the hash of a rule set does not differ
    r"|(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?)"
    r"|(?P<duration>\b\d+(?:\.\d+)? ?(?:ns|µs|ms|s)\b)"
    r"|(?P<to_come>\b\d+ (?:minutes|hours|days) more\b)"  # where in an hour it began makes a difference
)
_RULER = re.compile(r"^[\s─]*$")


class Shown:
    """Compares what is shown with what is printed; remembers which shown id stood for which printed one."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def compare(self, shown: tuple[str, ...], printed: str) -> None:
        """Fail unless `printed` is what is `shown`."""
        found = _lines(printed.splitlines())
        place = 0
        parts = _parts(_lines(shown))
        for number, part in enumerate(parts):
            # Between two "..." a part may begin anywhere; the first and the last stand at their ends.
            last = max(place, len(found) - len(part))
            first = last if number == len(parts) - 1 and number else place
            starts = range(first, last + 1 if number else place + 1)
            begun = next((start for start in starts if self._matches(part, found[start:])), None)
            assert begun is not None, "shown:\n{}\n\nprinted:\n{}".format("\n".join(part), "\n".join(found[place:]))
            place = begun + len(part)
        assert len(parts) > 1 or place == len(found), f"printed and not shown: {found[place:]}"

    def _matches(self, part: list[str], found: list[str]) -> bool:
        before = dict(self.ids)
        if len(part) <= len(found) and all(map(self._same, part, found)):
            return True
        self.ids = before
        return False

    def _same(self, shown: str, printed: str) -> bool:
        names: list[str] = []
        pattern = ""
        end = 0
        for varying in _VARIES.finditer(shown):
            pattern += re.escape(shown[end : varying.start()])
            end = varying.end()
            if varying["id"] is None:
                pattern += _ANY[varying.lastgroup or ""]
            elif (known := self.ids.get(varying["id"])) is not None:
                pattern += known
            else:
                names.append(varying["id"])
                pattern += f"([0-9a-f]{{{len(varying['id'])}}})"
        match = re.fullmatch(pattern + re.escape(shown[end:]), printed)
        if match is not None:
            self.ids.update(zip(names, match.groups(), strict=True))
        return match is not None

    def translated(self, line: str) -> str:
        """A command with the ids that were printed."""
        for shown, printed in self.ids.items():
            line = line.replace(shown, printed)
        return line


_ANY = {
    "time": r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?",
    "duration": r"\d+(?:\.\d+)? ?(?:ns|µs|ms|s)",
    "to_come": r"\d+ (?:minutes|hours|days) more",
}


def _parts(lines: list[str]) -> list[list[str]]:
    """The lines before, between and after each "..."."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _lines(lines: tuple[str, ...] | list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if not _RULER.match(line)]
