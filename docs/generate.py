"""Write what the documentation takes from the code: tables, help texts, examples.

    python docs/generate.py           write it
    python docs/generate.py --check   say which pages are old, and end with 1 if any is

Two kinds of pages: those written by hand, which say between ``[[[cog`` and ``]]]``, in a comment, which function of
`generator` gives what follows; and those of commands and evaluators, which are written whole. Nothing depends on the
machine: no times, no paths, one terminal width.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

from cogapp import Cog
from generator import api, commands, dashboards, evaluators

from tracegrade.rule.schema import rule_schema

ROOT = Path(__file__).resolve().parents[1]
_PROLOGUE = """
import cog
from generator import api, commands, matchers, recipes, scale, sentences, store, tables
def block(text): cog.out("\\n" + text + "\\n\\n")
"""


def parts(*, check: bool) -> list[str]:
    """Write the generated parts of pages written by hand, or compare them; the files that are old."""
    old = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if "[[[cog" in path.read_text(encoding="utf-8"):
            name = str(path.relative_to(ROOT))
            with contextlib.redirect_stdout(io.StringIO()):
                code = Cog().main(["cog", "-I", "docs", "-p", _PROLOGUE, *(["--check"] if check else ["-r"]), name])
            old += [name] if code != 0 else []
    return old


def pages(*, check: bool) -> list[str]:
    """Write the pages and dashboards that are generated whole, or compare them; the files that are old."""
    old = []
    made = [*api.pages().items(), *commands.pages().items(), *evaluators.pages().items()]
    for path, text in [*made, *dashboards.dashboards().items()]:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            old.append(str(path.relative_to(ROOT)))
        else:
            path.write_text(text, encoding="utf-8")
    return old


def schema(*, check: bool) -> list[str]:
    """Write the JSON Schema of rule files, or compare it; the file if it is old."""
    path, made = ROOT / "rules" / "schema.json", rule_schema()
    if json.loads(path.read_text(encoding="utf-8")) == made:
        return []
    if not check:
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return [str(path.relative_to(ROOT))] if check else []


def main(arguments: list[str]) -> int:
    """Write, or with ``--check`` compare; the exit code."""
    os.chdir(ROOT)
    check = arguments == ["--check"]
    old = [*parts(check=check), *pages(check=check), *schema(check=check)]
    for name in old:
        print(f"{name}: not what the code gives; '.ci/generated' writes it")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
