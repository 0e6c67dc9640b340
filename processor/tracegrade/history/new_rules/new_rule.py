"""A new rule with its tests and traces, to start with: from a recipe, or made from a recorded trace.

A rule from a trace expects the calls of that trace in their
order: the trace passes, and a run of the same agent that calls nothing fails. From a trace without calls, it is the
other way round.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracegrade.document.yaml_text import dumped
from tracegrade.history.new_rules.made_run import Step, made_run
from tracegrade.history.new_rules.recipe import Recipe
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue

if TYPE_CHECKING:
    from tracegrade.model.agent_run import AgentRun
    from tracegrade.model.extraction import Extraction

SCHEMA = "schema.json"
_SCHEMA_LINE = "# yaml-language-server: $schema=../../schema.json\n"
_SMALL = ({"key", "value"}, {"name"}, {"code"})

_HEAD = """\
{schema}id: {id}
title: {title}
# What is judged, and why, for people who see a fail.
description: {description}
status: experimental  # judged and stored, never alerts; stable when it failed on one trace and passed on another
level: {level}
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """What is written: the rule's YAML, and for each trace its file's name, its description, outcome and requests."""

    rule: str
    evaluation: str
    traces: Sequence[tuple[str, str, str, Sequence[dict[str, JsonValue]]]]


def from_recipe(rule_id: str, recipe: Recipe) -> Draft:
    """The recipe's rule under that id, with its two runs as traces."""
    head = _HEAD.format(
        schema=_SCHEMA_LINE, id=rule_id, title=recipe.title, description=recipe.description, level=recipe.level
    )
    return Draft(
        head + recipe.body,
        recipe.evaluator,
        [
            (_file_name(run.says), run.says, outcome, [made_run("help-desk", "support", run.run)])
            for run, outcome in ((recipe.passes, "pass"), (recipe.fails, "fail"))
        ],
    )


def from_trace(
    rule_id: str,
    extraction: "Extraction",
    requests: Sequence[dict[str, JsonValue]],
    only_agent: str | None = None,
) -> Draft:
    """A rule that expects the calls of one trace; `requests` are the trace as it will be written beside the rule.

    It is of the only run that has calls; of several, it is of the whole trace, or of the run of `only_agent`.

    Raises:
        TraceGradeError: no run of the trace is of that agent, or several are.
    """
    service = extraction.trace.resource.service
    calling = [run for run in extraction.runs if run.calls] or extraction.runs[:1]
    if only_agent is not None:
        calling = [run for run in extraction.runs if run.agent == only_agent]
        if len(calling) != 1:
            named = ", ".join(sorted({run.agent for run in extraction.runs if run.agent})) or "none has a name"
            found = f"{len(calling)} runs of the trace are" if calling else "no run of the trace is"
            raise TraceGradeError(
                f"--agent {only_agent}: {found} of this agent; agents: {named}; leave it out for all calls"
            )
    same = [run for run in extraction.runs if run.agent == calling[0].agent]
    if len(calling) == len(same) == 1:
        calls, scope, agent = calling[0].calls, "agent", calling[0].agent
    else:
        calls, scope, agent = extraction.calls, "trace", _outermost(extraction.runs).agent
    names = [call.name for call in calls]
    clauses = {name: _escaped(value) for name, value in (("service", service), ("agent", agent)) if value}
    trace_id = extraction.trace.trace_id.hex()
    if names:
        evaluation: dict[str, JsonValue] = {"evaluator": "tool-call-order", "tool_calls_order": [*names]}
        title, described = "The tools were not called in the usual order", "nothing was called"
        other: list[Step] = []
    else:
        evaluation = {"evaluator": "abstention", "should_call_tool": False}
        title, described = "A tool was called where none is needed", "a tool was called"
        other = [{"tool": "look_up"}]
    head = _HEAD.format(
        schema=_SCHEMA_LINE,
        id=rule_id,
        title=title,
        description=f"What trace {trace_id} did is what is expected.",
        level="medium",
    )
    match = {"match": clauses} if clauses else {}
    body = dumped({"scope": scope, **match, "evaluate": [evaluation]})
    failing = made_run(service, agent, other)
    return Draft(
        head + body,
        str(evaluation["evaluator"]),
        [
            (f"{trace_id}.json", "as it was recorded", "pass", requests),
            (_file_name(described), described, "fail", [failing]),
        ],
    )


def _file_name(described: str) -> str:
    return "_".join(re.findall("[a-z0-9]+", described)) + ".json"


def _outermost(runs: "Sequence[AgentRun]") -> "AgentRun":
    return next((run for run in runs if run.parent_span_id is None), runs[0])


def _escaped(text: str) -> str:
    """The glob that matches exactly this text."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def write(folder: Path, draft: Draft) -> list[Path]:
    """Write the files of a rule into `folder`, which must not be there yet, and the schema for editors above it.

    Returns:
        What was written.

    Raises:
        TraceGradeError: the folder is there, or cannot be made.
    """
    from tracegrade.rule.schema import rule_schema_text

    traces = folder / "traces"
    try:
        traces.mkdir(parents=True)
    except FileExistsError:
        raise TraceGradeError(
            f"{folder}: a rule of this id exists already; choose another id, or delete it first"
        ) from None
    except OSError as error:
        raise TraceGradeError(f"{folder}: cannot be made: {error.strerror}") from None
    tests = [
        {"description": described, "trace": name, "expect": {draft.evaluation: outcome}}
        for name, described, outcome, _ in draft.traces
    ]
    files = {folder / "rule.yaml": draft.rule, folder / "tests.yaml": dumped(tests)}
    for name, _, _, requests in draft.traces:
        files[traces / name] = trace_file(requests)
    schema = folder.parents[1] / SCHEMA
    if not schema.exists():
        files[schema] = rule_schema_text() + "\n"
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def trace_file(requests: Sequence[dict[str, JsonValue]]) -> str:
    """The text of a trace's file: one request laid out to be read, several one a line."""
    one = len(requests) == 1
    return "".join((laid_out(item) if one else json.dumps(item)) + "\n" for item in requests)


def laid_out(value: JsonValue, depth: int = 0) -> str:
    """OTLP/JSON laid out for people: indented, one attribute a line."""
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value and set(value) not in _SMALL:
        members = [f"{inner}{json.dumps(key)}: {laid_out(member, depth + 1)}" for key, member in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{outer}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + laid_out(item, depth + 1) for item in value) + f"\n{outer}]"
    return json.dumps(value, ensure_ascii=False)
