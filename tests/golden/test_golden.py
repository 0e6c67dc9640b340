"""What programs read stays as it is: whoever changes it on purpose records it anew, and says so in CHANGELOG.md."""

import difflib
from pathlib import Path

from golden.forms import FOLDER, file_of, forms, lines_of


def test_what_programs_read_is_as_recorded(tmp_path: Path) -> None:
    differences: list[str] = []
    files = set()
    for name, form in forms(tmp_path):
        path = file_of(name)
        files.add(path)
        was = path.read_text(encoding="utf-8") if path.exists() else ""
        differences += difflib.unified_diff(
            was.splitlines(),
            lines_of(form, tmp_path).splitlines(),
            f"{name}, recorded",
            f"{name}, now",
            n=0,
            lineterm="",
        )
    assert not differences, "\n".join([*differences, "if that is wanted: python -m golden, and a line in CHANGELOG.md"])
    assert files == {*FOLDER.iterdir()}
