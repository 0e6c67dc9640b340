"""``tracegrade evaluate``: judges calls given on the command line, one set or a batch."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Never, TypeVar

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    format_option,
    outcome_text,
    print_json,
    print_line,
    print_table,
)
from tracegrade.display import json_text
from tracegrade.model.errors import TraceGradeError

if TYPE_CHECKING:
    from tracegrade.judge_case import CaseResult


F = TypeVar("F", bound=Callable[..., Any])


def _json_option(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, name.strip("-"), metavar="JSON|@FILE", help=text)


@click.command(cls=Command)
@click.argument("evaluator", required=False)
@_json_option("--criteria", "What is expected; without it, the evaluator's default criteria.")
@_json_option("--config", "The evaluator's settings.")
@_json_option("--calls", "The calls made, in order: [{name, args, output, status, step}], or as 'extract' prints them.")
@_json_option(
    "--spans", "Raw spans to read the calls from, instead of --calls: [{name, start, end, attributes}] in seconds."
)
@click.option(
    "--threshold", type=click.FloatRange(0, 1), default=1.0, show_default=True, help="The least score to pass."
)
@click.option("--matchers", is_flag=True, help="Read objects of $ keys in criteria as matchers, not as literal values.")
@click.option("--gate", is_flag=True, help="Answer not_evaluable where a call lacks what the evaluator reads.")
@click.option("--semantic-model", metavar="FOLDER", help="The model2vec model for $semantic.")
@click.option("--batch", type=click.File("rb"), help="JSON lines, one case each; '-' reads standard input.")
@format_option
def command(
    evaluator: str | None,
    criteria: str | None,
    config: str | None,
    calls: str | None,
    spans: str | None,
    threshold: float,
    matchers: bool,
    gate: bool,
    semantic_model: str | None,
    batch: IO[bytes] | None,
    output_format: str,
) -> None:
    """Judge calls by EVALUATOR, or every case of --batch.

    A line of --batch is {id, evaluator, config, criteria, calls | spans}, and optionally threshold, matchers and gate;
    if a line omits one of these three, the command-line option applies. The answer to each line is one line {id,
    outcome, score, details, explanation, error}: outcome is pass, fail, not_evaluable or error; error is null or {type,
    message}.

    Exit codes: 0 judged, whatever the outcome; 2 wrong usage, or a single case that cannot be judged; 3 a batch
    without a case.
    """
    from tracegrade.plugins.installed import load_plugins
    from tracegrade.rule.reading import RuleReading

    load_plugins()
    defaults = {"threshold": threshold, "matchers": matchers, "gate": gate}
    parts = {"criteria": criteria, "config": config, "calls": calls, "spans": spans}
    given = {key: _read_json(f"--{key}", text) for key, text in parts.items() if text is not None}
    if batch is not None:
        if evaluator is not None or given:
            raise TraceGradeError("--batch takes everything from its lines; leave EVALUATOR and the JSON options out")
        with RuleReading(semantic_model).in_force():
            _judge_batch(batch, defaults)
        return
    if evaluator is None:
        raise TraceGradeError("expected an EVALUATOR, such as tool-call-order, or --batch FILE")
    if "calls" not in given and "spans" not in given:
        raise TraceGradeError("expected --calls or --spans: what is judged")
    with RuleReading(semantic_model).in_force():
        _judge_one({"evaluator": evaluator, **defaults, **given}, output_format)


def _judge_one(case: dict[str, Any], output_format: str) -> None:
    from tracegrade.judge_case import judge_case

    result = judge_case(case)
    if result.error_type is not None:
        raise TraceGradeError(f"{result.error_type}: {result.explanation}")
    if output_format == "json":
        print_json([result.to_json()])
        return
    details = [(key, json_text(value)) for key, value in result.details.items()]
    rows: list[tuple[str, object]] = [("outcome", outcome_text(result.outcome))]
    rows += [] if result.score is None else [("score", result.score)]
    print_table("", (case["evaluator"], ""), [*rows, ("explanation", result.explanation), *details])


def _judge_batch(lines: IO[bytes], defaults: dict[str, Any]) -> None:
    results = _results(lines, defaults)
    first = next(results, None)
    if first is None:
        print_line(f"Error: no case was read: {lines.name}: no line in it", err=True)
        sys.exit(EXIT_CANNOT_TELL)
    print_json(result.to_json() for result in chain([first], results))


def _results(lines: Iterable[bytes], defaults: dict[str, Any]) -> "Iterator[CaseResult]":
    from tracegrade.judge_case import CaseResult, judge_case

    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            case = _parse(line)
        except ValueError as error:
            yield CaseResult(
                None, "error", explanation=f"line {number} is not JSON: {error}", error_type="invalid_case"
            )
        else:
            yield judge_case({**defaults, **case} if isinstance(case, dict) else case)


def _read_json(option: str, text: str) -> Any:
    """The JSON of an option; ``@FILE`` reads a file."""
    try:
        return _parse(Path(text[1:]).read_bytes() if text.startswith("@") else text)
    except OSError as error:
        raise TraceGradeError(f"{option}: cannot read {text[1:]}: {error.strerror or error}") from None
    except ValueError as error:
        raise TraceGradeError(f"{option}: not JSON: {error}") from None


def _parse(text: str | bytes) -> Any:
    """Strict JSON with integers exact at any size.

    Raises:
        ValueError: not JSON, or nested too deep.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
