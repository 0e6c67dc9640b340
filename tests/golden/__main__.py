"""Record the forms anew: `python -m golden` with tests/ among PYTHONPATH. What changes is for CHANGELOG.md."""

from pathlib import Path
from tempfile import TemporaryDirectory

from golden.forms import FOLDER, file_of, forms, lines_of

with TemporaryDirectory() as folder:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    for name, form in forms(Path(folder)):
        file_of(name).write_text(lines_of(form, Path(folder)), encoding="utf-8")
