"""Tests of one rule as one file: the page makes it of traces, and ``promote --from`` adds it beside the rule."""

import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path

from tracegrade.document.document import Document
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import parse
from tracegrade.history.promote.rule_test_files import RuleTestFiles, traces_of
from tracegrade.model.errors import NotPossible
from tracegrade.pipeline.rule_tests import RuleTests
from tracegrade.rule.load import tests_path

MOST_TRACES = 50
"""Traces that one download is made of."""

_SOME_DAY = (2026, 1, 1, 0, 0, 0)  # so that the same traces give the same bytes
_MOST_BYTES = 256 * 1024 * 1024
_DAMAGED = (zipfile.BadZipFile, zlib.error, LZMAError, UnicodeDecodeError, EOFError, NotImplementedError, RuntimeError)
_TESTS = "tests.yaml"
_TRACE = re.compile(r"traces/[0-9a-f]{32}\.json")


def packed(files: RuleTestFiles) -> bytes:
    """A zip of the tests that `files` would write, in a folder named after the rule."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.files.items():
            archive.writestr(zipfile.ZipInfo(str(path), _SOME_DAY), text)
    return written.getvalue()


def empty_files(rule_id: str) -> RuleTestFiles:
    """The tests of a rule in a folder named after it, of which there are none yet."""
    return RuleTestFiles(tests_path(Path(rule_id, "rule.yaml")))


@dataclass(frozen=True, slots=True)
class Download:
    """The tests of the rule `rule_id`: the document ``tests``, and the texts of ``traces`` by their file names."""

    rule_id: str
    tests: Document
    traces: Mapping[str, str]


def unpacked(path: Path) -> Download:
    """What `packed` wrote into the file at `path`.

    Raises:
        NotPossible: it cannot be read, or is no such file.
        FileError: its tests.yaml is wrong.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            texts = _texts(path, archive)
    except OSError as error:
        raise NotPossible(f"{path}: cannot be read: {error.strerror or error}") from None
    except _DAMAGED as error:
        raise NotPossible(f"{path}: expected a download of the page, a zip file; {error}") from None
    folders = {name.partition("/")[0] for name in texts}
    files = {name.partition("/")[2]: text for name, text in texts.items()}
    odd = next((name for name in files if name != _TESTS and not _TRACE.fullmatch(name)), None)
    if len(folders) != 1 or odd is not None or _TESTS not in files:
        raise NotPossible(
            f"{path}: expected RULE_ID/{_TESTS} and RULE_ID/traces/TRACE_ID.json alone, found "
            f"{', '.join(sorted(texts)[:5]) or 'nothing'}"
        )
    tests = parse(files.pop(_TESTS), f"{path}:{_TESTS}")
    validate(tests, RuleTests)
    traces = {name.removeprefix("traces/"): text for name, text in files.items()}
    entries = tests.value if isinstance(tests.value, list) else []
    named = {str(name) for entry in entries if isinstance(entry, dict) for name in traces_of(entry)}
    if named != traces.keys():
        raise NotPossible(f"{path}: its {_TESTS} names other traces than it holds: {min(named ^ traces.keys())}")
    return Download(folders.pop(), tests, traces)


def _texts(path: Path, archive: zipfile.ZipFile) -> dict[str, str]:
    """The files of an archive as text.

    Raises:
        NotPossible: they are too many or too large; what they say of their sizes is not believed.
    """
    found: dict[str, str] = {}
    left = _MOST_BYTES
    for info in archive.infolist():
        with archive.open(info) as file:
            content = file.read(left + 1)
        left -= len(content)
        if left < 0:
            raise NotPossible(f"{path}: expected at most {_MOST_BYTES >> 20} MiB in it, found more")
        found[info.filename] = content.decode()
    return found
