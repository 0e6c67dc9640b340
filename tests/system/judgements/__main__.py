"""Records what this commit judges, and compares two such files.

    PYTHONPATH=tests:tests/system python -m system.judgements record before.jsonl.gz
    PYTHONPATH=tests:tests/system python -m system.judgements compare before.jsonl.gz after.jsonl.gz

Recorded are all captures under tests and in the folder `shared` beside the repository (where it is), the traces of all
ready-made rules, all vectors, and made traces, with the rules in `made_rules`. A file holds, for each trace or session
and each rule: the decision or the clause that did not match, and each evaluation with its id, outcome, score, reason,
explanation and details. `compare` counts differences in words alone, counts what could not be evaluated before and is
judged now, by evaluator, and shows every other kind of difference with examples; for these it exits with 1.
"""

import gzip
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

from system.judgements.compared import compared
from system.judgements.recorded import TESTS, lines_of, parts

_SHARED = TESTS.parents[1] / "shared"


@click.group()
def main() -> None:
    """Judgements of one commit beside those of another."""


@main.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--made", default=5_000, show_default=True, help="How many traces are made.")
@click.option("--shared", default=_SHARED, type=click.Path(path_type=Path), help="Where corpus and conformance are.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
def record(file: Path, made: int, shared: Path, jobs: int) -> None:
    """Judge everything and write it to FILE (gzip)."""
    todo = parts(shared, made)
    count = 0
    with (
        gzip.open(file, "wt", encoding="utf-8") as out,
        ProcessPoolExecutor(jobs) as pool,
        click.progressbar(pool.map(lines_of, todo, chunksize=4), len(todo), file=sys.stderr) as found,
    ):
        for lines in found:
            count += len(lines)
            out.writelines(f"{line}\n" for line in lines)
    kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(kind for kind, _ in todo).items())
    click.echo(f"{count} lines in {file}; parts: {kinds}")


@main.command()
@click.argument("before", type=click.Path(path_type=Path, exists=True))
@click.argument("after", type=click.Path(path_type=Path, exists=True))
def compare(before: Path, after: Path) -> None:
    """Say how the file AFTER differs from BEFORE."""
    found = compared(before, after)
    click.echo(f"{found.lines} lines")
    for title, counts in (("other words", found.words), ("judged now", found.decided), ("differ", found.others)):
        for kind, count in counts.most_common():
            click.echo(f"{title}: {kind}: {count}")
            for example in found.examples.get(kind, ()) if counts is found.others else ():
                click.echo(f"    {example}")
    sys.exit(1 if found.others else 0)


if __name__ == "__main__":
    main()
