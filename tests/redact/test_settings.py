"""The settings of redaction: what is refused, and how it is said."""

import re
from pathlib import Path

import pytest

from build import each
from tracegrade.config import load_config
from tracegrade.document.problem import FileError
from tracegrade.model.errors import TraceGradeError
from tracegrade.receive.redaction import trial_redactor
from tracegrade.redact.settings import RedactionSettings

KEY = "0123456789abcdef0123456789abcdef"


def problem(tmp_path: Path, text: str) -> str:
    """What is said of `redaction:` with this content."""
    file = tmp_path / "config.yaml"
    file.write_text("redaction:\n" + text)
    with pytest.raises(FileError) as caught:
        load_config(file)
    return str(caught.value).removeprefix(str(file) + ":")


@each(
    ("text", "said"),
    [
        ("  action: hash\n", "redaction: action is hash, which needs key or key_file"),
        ("  places: [{attribute: a, action: hash}]\n", "redaction: places[0] is hash, which needs key or key_file"),
        (
            "  key: short\n",
            "redaction.key: expected at least 32 characters, such as 'openssl",
        ),
        (f"  key: {KEY}\n  key_file: k\n", "redaction: expected key or key_file, found both"),
        ("  detectors: [emial]\n", "redaction: no detector 'emial'; did you mean 'email'?"),
        ("  detectors: [post]\n", "redaction: no detector 'post'; there are "),
        ("  actions: {mail: mask}\n", "redaction: no detector 'mail'; did you mean 'email'?"),
        ("  detectors: []\n", "redaction: nothing is redacted: there are no detectors, no patterns, no names_file"),
        ("  patterns: {email: 'x'}\n", "redaction: pattern 'email' is called as a detector is; give it another name"),
        ("  patterns: {own: '.*'}\n", "redaction.patterns: pattern 'own': '.*' finds the empty text"),
        ("  patterns: {own: '.'}\n", "redaction.patterns: pattern 'own': '.' finds something in every text"),
        (
            "  detectors: [email, name]\n",
            "redaction: the detector 'name' finds what names_file lists; give one, or leave",
        ),
        ("  action: keep\n", "redaction.action: expected 'drop', 'mask' or 'hash', found 'keep'"),
        (
            "  places: [{action: mask}]\n",
            "redaction.places[0]: expected one of attribute, arguments, outputs, messages,",
        ),
        (
            "  places: [{attribute: a, arguments: b, action: mask}]\n",
            "redaction.places[0]: expected one of attribute, arguments, outputs, messages, events, found attribute and "
            "arguments",
        ),
        (
            "  places: [{arguments: '$.a[0]', action: mask}]\n",
            "redaction.places[0].arguments: expected names of members with dots between them",
        ),
        (
            "  places: [{arguments: a, path: b, action: mask}]\n",
            "redaction.places[0]: path belongs to attribute or events; arguments takes the path itself",
        ),
    ],
)
def test_a_mistake_is_said_where_it_stands(tmp_path: Path, text: str, said: str) -> None:
    found = problem(tmp_path, text)
    assert re.sub(r"^\d+:\d+: ", "", found).startswith(said)
    assert KEY not in found


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    short = tmp_path / "key"
    short.write_text("abc\n")
    names = tmp_path / "names"
    names.write_text("Ann\nB\n")
    for settings, said in (
        ({"key_file": str(short)}, "expected at least 32 characters, such as 'openssl rand -hex 32' prints, found 3"),
        ({"key_file": str(tmp_path / "none")}, "No such file or directory"),
        ({"names_file": str(names)}, "name 'B' would be found everywhere; expected 2 characters or more"),
    ):
        with pytest.raises(TraceGradeError, match=re.escape(said)):
            trial_redactor(RedactionSettings.model_validate(settings))


def test_the_key_is_never_shown() -> None:
    assert KEY not in repr(RedactionSettings.model_validate({"key": KEY}))
