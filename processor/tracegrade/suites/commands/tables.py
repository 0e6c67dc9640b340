"""What ``suite run`` prints at its end: tables, JSON, JUnit and Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tracegrade.cli.output import markdown_table, outcome_text, print_json, print_line, print_lines, print_table
from tracegrade.cli.reports import as_markdown, junit_document, xml_text
from tracegrade.suites.runs.results import CHAIN_NUMBERS

if TYPE_CHECKING:
    from tracegrade.suites.runs.results import CaseResult, ModelSummary
    from tracegrade.suites.runs.run import Asking
    from tracegrade.suites.suite import Suite

_MAX_LISTED = 50
_JUNIT = {"fail": "failure", "error": "error", "not_evaluable": "skipped"}
_AVERAGES = ["model", "run", "pass", "fail", "error", "overall", "95 % interval", "selection", "parameters"]
_TAKEN = ["tokens in", "tokens out", "cost", "latency"]

Results = Mapping[str, "Sequence[CaseResult]"]


def print_suite_run(
    suite: "Suite", summaries: "Sequence[ModelSummary]", results: Results, output_format: str, asking: "Asking"
) -> None:
    """Print the results of each model's run, by its name, and the averages."""
    if output_format == "json":
        print_json({"kind": "result", **item.to_json()} for found in results.values() for item in found)
        print_json({"kind": "summary", **summary.to_json()} for summary in summaries)
    elif output_format == "junit":
        print_lines(_junit(suite, summaries, results))
    elif output_format == "markdown":
        print_lines(_markdown(suite, summaries, results, asking))
    else:
        _print_tables(summaries, results, asking)


def _print_tables(summaries: "Sequence[ModelSummary]", results: Results, asking: "Asking") -> None:
    listed = [item for found in results.values() for item in found if item.outcome != "pass"]
    if listed:
        rows = [
            [
                outcome_text(item.outcome),
                _case_text(item),
                item.model,
                item.score,
                item.number("tool_selection"),
                item.number("param_accuracy"),
                item.explanation,
                item.trace_id,
            ]
            for item in listed[:_MAX_LISTED]
        ]
        columns = ["outcome", "case", "model", "overall", "selection", "parameters", "why", "trace"]
        print_table("", columns, rows, whole=["outcome", "trace"], spare=["parameters", "selection"])
        if (rest := len(listed) - _MAX_LISTED) > 0:
            print_line(f"... and {rest} more; --format json has all.")
    chains = [item for found in results.values() for item in found if item.number("completion") is not None]
    if chains:
        rows = [[_case_text(item), item.model, *(item.number(name) for name in CHAIN_NUMBERS)] for item in chains]
        columns = ["several turns", "model", *(name.replace("_", " ") for name in CHAIN_NUMBERS)]
        print_table("", columns, rows[:_MAX_LISTED])
    averages = [_summary_row(summary) for summary in summaries]
    print_table(
        "", [*_AVERAGES, *_TAKEN], averages, whole=["model", "run"], spare=[*reversed(_TAKEN)], empty="Nothing ran."
    )
    for line in _remarks(summaries, asking):
        print_line(line)


def _summary_row(summary: "ModelSummary") -> list[str]:
    return [
        summary.model,
        summary.run,
        *(str(summary.outcomes[name] or "") for name in ("pass", "fail")),
        str((summary.outcomes["error"] + summary.outcomes["not_evaluable"]) or ""),
        _number(summary.overall),
        "" if summary.interval is None else f"{summary.interval[0]:.3f}-{summary.interval[1]:.3f}",
        _number(summary.tool_selection),
        _number(summary.param_accuracy),
        str(summary.input_tokens if summary.input_tokens is not None else ""),
        str(summary.output_tokens if summary.output_tokens is not None else ""),
        "" if summary.cost is None else f"{summary.cost:.4g}",
        "" if summary.latency_s is None else f"{summary.latency_s:.2f} s",
    ]


def _remarks(summaries: "Sequence[ModelSummary]", asking: "Asking") -> Iterator[str]:
    """What is to be said of the models beside the numbers."""
    for summary in summaries:
        if summary.flaky:
            yield f"{summary.model}: passes and fails the same cases: {', '.join(summary.flaky)}"
        for note, number in list(summary.notes.items())[:5]:
            yield f"{summary.model}: {note} ({number} times)" if number > 1 else f"{summary.model}: {note}"
        if summary.tool_selection == 1 and summary.param_accuracy == 0:
            yield f"{summary.model}: right tools, and no parameter as expected: do the cases expect too much?"
        if summary.overall == 0 and asking.tool_choice == "auto":
            yield f"{summary.model}: nothing is right with --tool-choice auto: it may answer in words; try 'required'"


def _case_text(item: "CaseResult") -> str:
    return item.case + (f" #{item.repetition}" if item.repetition > 1 else "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _junit(suite: "Suite", summaries: "Sequence[ModelSummary]", results: Results) -> str:
    suites = ElementTree.Element("testsuites", {"name": suite.name, **_counts(results)})
    for summary in summaries:
        found = results[summary.run]
        one = ElementTree.SubElement(suites, "testsuite", {"name": summary.model, **_counts({summary.run: found})})
        properties = ElementTree.SubElement(one, "properties")
        for key, value in summary.to_json().items():
            if isinstance(value, str | int | float):
                ElementTree.SubElement(properties, "property", {"name": key, "value": f"{value}"})
        for item in found:
            shown = {"classname": summary.model, "name": xml_text(_case_text(item)), "time": f"{item.latency_s:.3f}"}
            case = ElementTree.SubElement(one, "testcase", shown)
            if (element := _JUNIT.get(item.outcome)) is not None:
                ElementTree.SubElement(case, element, {"message": xml_text(item.explanation)})
    return junit_document(suites)


def _counts(results: Results) -> dict[str, str]:
    outcomes = [item.outcome for found in results.values() for item in found]
    return {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count("fail")),
        "errors": str(outcomes.count("error")),
        "skipped": str(outcomes.count("not_evaluable")),
    }


def _markdown(suite: "Suite", summaries: "Sequence[ModelSummary]", results: Results, asking: "Asking") -> str:
    parts = [f"## {as_markdown(suite.name)}"]
    parts.append(markdown_table([*_AVERAGES, *_TAKEN], [_summary_row(summary) for summary in summaries]))
    parts += [f"- {as_markdown(line)}" for line in _remarks(summaries, asking)]
    failed = [item for found in results.values() for item in found if item.outcome in ("fail", "error")]
    if failed:
        rows = [
            [item.outcome, as_markdown(_case_text(item)), as_markdown(item.model), as_markdown(item.explanation)]
            for item in failed[:_MAX_LISTED]
        ]
        parts += ["### What failed", markdown_table(["outcome", "case", "model", "why"], rows)]
    if (rest := len(failed) - _MAX_LISTED) > 0:
        parts.append(f"... and {rest} more; --format json has all.")
    return "\n\n".join(parts)
