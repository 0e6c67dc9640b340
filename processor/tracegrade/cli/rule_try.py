"""``tracegrade rules try``: one rule on one trace, step by step."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import tenant_option
from tracegrade.cli.output import (
    EXIT_FAILED,
    Styled,
    end_if_nothing_read,
    format_option,
    outcome_text,
    print_json,
    print_line,
    print_source_report,
    print_table,
    styled,
    tool_text,
)
from tracegrade.cli.rule_paths import is_place, named_rules
from tracegrade.cli.settings import settings_options
from tracegrade.display import count, json_text, judged_score_text
from tracegrade.model.tenant import DEFAULT_TENANT

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.history.rule_trial import Trial
    from tracegrade.model.extraction import Extraction
    from tracegrade.model.json_value import JsonValue
    from tracegrade.model.subject import Subject
    from tracegrade.model.tool_call import ToolCall
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.rule.evaluation_spec import EvaluationSpec
    from tracegrade.rule.rule import Rule

_MAX_SHOWN = 3  # calls that broke one constraint


class Part(NamedTuple):
    """One of them: whether it is as it should be (None: no question), its name, what it asks, and what was found."""

    good: bool | None
    name: str
    asks: str
    found: str


def judged_parts(
    spec: "EvaluationSpec | None", details: Mapping[str, Any], calls: "Sequence[ToolCall]"
) -> Iterator[Part]:
    """The parts in an evaluation's `details`; none of evaluators whose explanation says it all.

    Args:
        spec: what was judged; None where that is not known.
        details: as its evaluator gave them.
        calls: those of the subject, by whose numbers people know them.
    """
    if spec is not None and (read := _READERS.get(spec.evaluator.name)) is not None:
        yield from read(spec, details, _Numbers(calls))


class _Numbers:
    """The numbers of calls, by the spans that show them."""

    def __init__(self, calls: "Sequence[ToolCall]") -> None:
        self._calls = calls
        shared = Counter(call.span_id for call in calls)
        self._by_span = {call.span_id: number for number, call in enumerate(calls, 1) if shared[call.span_id] == 1}

    def of(self, call: Mapping[str, Any]) -> str:
        """``call 2 (refund)``; `call` has a number too, which counts from the call that ``when`` means, if any."""
        number = self._by_span.get(call["span_id"], call["call"])
        return f"call {number} ({self._calls[number - 1].name})" if number <= len(self._calls) else f"call {number}"


def _constraints(spec: "EvaluationSpec", details: Mapping[str, Any], numbers: _Numbers) -> Iterator[Part]:
    asked = [form.rule for form in spec.criteria.constraints]
    for place, (asks, each) in enumerate(zip(asked, details.get("constraints", ()), strict=False), 1):
        broken, times = each["violations"], each["triggered"]
        if broken:
            more = f"; and {len(broken) - _MAX_SHOWN} more" if len(broken) > _MAX_SHOWN else ""
            found = "; ".join(_violation(one, numbers) for one in broken[:_MAX_SHOWN]) + more
        else:
            found = f"{each['satisfied']} of {count(times, 'check')} passed" if times else "did not apply"
        is_known = times and not (broken and all(one.get("unknown") for one in broken))
        yield Part(not broken if is_known else None, f"constraint {place}", asks, found)


def _violation(violation: Mapping[str, Any], numbers: _Numbers) -> str:
    calls = ", ".join(map(numbers.of, violation["calls"])) or "no call"
    nearest = f", nearest: {numbers.of(violation['nearest'])}" if "nearest" in violation else ""
    return f"{calls}{nearest}{' (not known)' if violation.get('unknown') else ''}"


def _steps(spec: "EvaluationSpec", details: Mapping[str, Any], numbers: _Numbers) -> Iterator[Part]:
    for place, each in enumerate(details.get("steps", ()), 1):
        call = f": {numbers.of(each)}" if "call" in each else ""
        yield Part(each["found"] == "made", f"step {place}", each["step"], f"{each['found']}{call}")
    if spec.settings.extra == "count":
        for each in details.get("extra", ()):
            yield Part(False, "no step", "", numbers.of(each))


def _values(_: "EvaluationSpec", details: Mapping[str, Any], __: _Numbers) -> Iterator[Part]:
    for path, value in details.get("read", {}).items():
        yield Part(None, "reads", path, value if isinstance(value, str) else json_text(value))


def _grounded(_: "EvaluationSpec", details: Mapping[str, Any], __: _Numbers) -> Iterator[Part]:
    for each in details.get("ungrounded", ()):
        yield Part(False, each["kind"], each["value"], "nothing gave it")
    for each in details.get("derived", ()):
        yield Part(True, each["kind"], each["value"], f"the sum of {' and '.join(each['sum_of'])}")
    for each in details.get("grounded", ()):
        yield Part(True, each["kind"], each["value"], f"given by {each['source'] if each['span_id'] else 'the prompt'}")


_READERS: "dict[str, Callable[[EvaluationSpec, Mapping[str, Any], _Numbers], Iterator[Part]]]" = {
    "constraints": _constraints,
    "partial-order": _steps,
    "condition": _values,
    "grounded-answer": _grounded,
}


_MAX_CELL = 60
# How the verdicts of each scope number calls.
_NUMBERED = {"tool-call": "in run", "agent": "in run", "trace": "in trace", "session": "in session"}


@click.command("try", cls=Command)
@click.argument("name", metavar="RULE")
@click.argument("sources", nargs=-1, required=True, metavar="TRACE_ID|FILE...")
@tenant_option
@settings_options
@format_option
def command(config: "Config", output_format: str, name: str, sources: tuple[str, ...], tenant: str | None) -> None:
    """Try one rule on traces, and show every step: what was read, what each clause found, what was judged.

    RULE is a rule file, or the id of a rule in the settings. A trace is one of the store, by its id, or a FILE of OTLP.
    Nothing is stored. The rule's 'sample' is ignored. A stored trace has only the attributes that some rule in force
    read when it was received.

    JSON: one line for each subject: {trace_id, rule_id, subject, calls, steps, decision, clause, outcome, reason,
    evaluations, not_read}.

    Exit codes: 1 a trace is not in the store, 3 no trace was read of the files given.
    """
    from tracegrade.history.rule_trial import sessions_in, tried, tried_on_session
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.plugins.installed import load_plugins
    from tracegrade.rule.prices import Prices

    load_plugins()
    rule = _the_rule(name, config)
    report = SourceReport()
    extractions = list(_extractions(sources, rule, config, tenant, report))
    print_source_report(report, output_format)
    if not extractions:
        end_if_nothing_read(report)
    if rule.scope == "session":  # its turns are read one after the other
        extractions.sort(key=lambda extraction: extraction.trace.start_ns)
    cost_of = Prices(config.traces.prices)
    found = [(extraction, tried(rule, extraction, cost_of)) for extraction in extractions]
    of_sessions = (
        []
        if rule.scope != "session"
        else [tried_on_session(rule, session, cost_of) for session in sessions_in(extractions)]
    )
    if output_format == "json":
        rows = [(extraction.trace.trace_id.hex(), trial) for extraction, trials in found for trial in trials]
        rows += [("", trial) for trials in of_sessions for trial in trials]
        print_json(
            {"trace_id": trace_id, "rule_id": rule.id, **trial.to_json(), "not_read": report.not_read}
            for trace_id, trial in rows
        )
        return
    for extraction, trials in found:
        _print_trace(rule, extraction, trials or [trial for some in of_sessions for trial in some])
        if not trials and rule.scope != "session":
            print_line(f"  It has no {rule.scope} to judge.")
        for trial in trials:
            _print_trial(rule, trial)
    for trials in of_sessions:
        for trial in trials:
            _print_trial(rule, trial)
    if rule.scope == "session" and not of_sessions:
        print_line("  It is part of no session: no conversation id was recorded.")


def _the_rule(name: str, config: "Config") -> "Rule":
    _, rules = named_rules(name, () if is_place(name) else config.rules.paths, config.rules.reading)
    if len(rules) != 1:
        raise click.UsageError(f"expected one rule at {name!r}, found {len(rules)}; give its file or its id")
    return rules[0]


def _is_file(name: str) -> bool:
    return Path(name).exists()


def _extractions(
    sources: Sequence[str], rule: "Rule", config: "Config", tenant: str | None, report: "SourceReport"
) -> "Iterator[Extraction]":
    from tracegrade.extract.extract import extract
    from tracegrade.otlp.files.sources import read_sources
    from tracegrade.pipeline.whole_traces import read_traces
    from tracegrade.rule.rule_set import RuleSet
    from tracegrade.rule.tool_aliases import ToolAliases

    files = [source for source in sources if source == "-" or _is_file(source) or "/" in source or "." in source]
    ids = [source for source in sources if source not in files]
    if ids:
        yield from _stored(ids, config, tenant)
    if files:
        stdin = sys.stdin.buffer if "-" in files else None
        attributes = RuleSet([rule]).attributes_read
        requests = read_sources(files, report, stdin)
        for trace in read_traces(requests, attributes, tenant or rule.tried_as, config.traces):
            yield extract(trace, ToolAliases(config.traces.tool_aliases))


def _stored(ids: Sequence[str], config: "Config", tenant: str | None) -> "Iterator[Extraction]":
    from tracegrade.history.stored_extraction import extract_stored
    from tracegrade.store.named import trace_id_named
    from tracegrade.store.open import reading_store
    from tracegrade.store.read import stored_traces

    with reading_store(config.store_url, tenant) as connection:
        for text in ids:
            found = stored_traces(connection, trace_id_named(connection, text))
            if not found:
                print_line(f"Trace {text} is not in the store; 'tracegrade why {text}' says where to look.", err=True)
                sys.exit(EXIT_FAILED)
            for stored in found:
                yield extract_stored(stored, config.traces)


def _print_trace(rule: "Rule", extraction: "Extraction", trials: "Sequence[Trial]") -> None:
    """Print the calls of a trace, numbered as `trials` number them."""
    trace = extraction.trace
    calls = count(len(extraction.calls), "tool call")
    whose = "" if trace.tenant == DEFAULT_TENANT else f", tenant {trace.tenant}"  # several may send the same id
    column, numbers = _numbered(rule, extraction, trials)
    print_table(
        f"trace {trace.trace_id.hex()} of {trace.resource.service or 'an unnamed service'}{whose}: {calls}",
        (column, "call", "arguments", "output", "agent"),
        [
            (
                number,
                tool_text(call.depth, call.name, call.raw_name),
                _cut(json_text(call.arguments)) if call.arguments is not None else f"({call.arguments_status})",
                _output_of(call),
                call.agent,
            )
            for number, call in zip(numbers, extraction.calls, strict=True)
        ],
        empty="no tool calls were read",
        whole=[column, "call"],
    )


def _numbered(rule: "Rule", extraction: "Extraction", trials: "Sequence[Trial]") -> tuple[str, list[int | None]]:
    """The head and the cells of the column of numbers; a call that is in no subject has none."""
    from tracegrade.model.tool_call import numbers_in_runs

    if rule.scope == "tool-call":  # a subject has one call, which is known by its span
        return _NUMBERED[rule.scope], [*numbers_in_runs(extraction.calls)]
    known: dict[tuple[str, str | None, str], list[int]] = {}
    for trial in trials:
        for at, call in enumerate(trial.matching.subject.calls, 1):
            known.setdefault(_known_by(call), []).append(at)
    found = (known.get(_known_by(call)) for call in extraction.calls)
    return _NUMBERED[rule.scope], [numbers.pop(0) if numbers else None for numbers in found]


def _known_by(call: "ToolCall") -> tuple[str, str | None, str]:
    """The same for a call of a trace and for its copy in a session."""
    return call.subject_id, call.call_id, call.name


def _output_of(call: "ToolCall") -> str:
    """What a call returned, or how it failed."""
    output = _cut(json_text(call.output)) if call.output is not None else f"({call.output_status})"
    if call.error is None:
        return output
    failed = _cut(f"failed: {call.error.message or call.error.type or 'without a message'}")
    return failed if call.output is None else f"{failed}; {output}"


def _print_trial(rule: "Rule", trial: "Trial") -> None:
    subject = trial.matching.subject
    specs = {(spec.name, spec.case): spec for spec in rule.specs}
    rows: list[Sequence[object]] = []
    for step in trial.matching.steps:
        # `unless` excludes by holding.
        good = step.holds is not step.clause.startswith("unless.") if isinstance(step.holds, bool) else None
        sign = styled("?", "yellow") if good is None else _sign(good=good)
        found = step.unknown or _cell(step.found)
        rows.append((sign, step.clause, _cell(step.asks), found))
    for item in trial.decision.evaluations if trial.decision is not None else ():
        score = (
            ""
            if item.score is None
            else f"score {judged_score_text(item.score, item.threshold)}, passes from {item.threshold:.4g}"
        )
        rows.append((outcome_text(item.outcome), item.evaluation, score, item.full_explanation or item.reason))
        for part in judged_parts(specs.get((item.evaluation, item.case)), item.details, subject.calls):
            sign = styled("") if part.good is None else _sign(good=part.good)
            rows.append((sign, f"  {part.name}", part.asks, part.found))
    print_table(
        f"{rule.id} on {_named(subject)}",
        ("", "step", "asks", "found"),
        rows,
        empty="it has no clauses: it judges everything in its scope",
        whole=["", "step"],
    )
    print_line(f"  {_verdict(rule, trial)}")


def _sign(*, good: bool) -> Styled:
    return styled("✓", "green") if good else styled("✗", "bold red")


def _named(subject: "Subject") -> str:
    """What was judged, so that it is told from others of its kind."""
    agent = f" of {subject.agent}" if subject.agent else ""
    if subject.kind == "agent":
        return f"agent {subject.agent or subject.id}"
    if subject.kind == "tool-call":
        return f"a call of {subject.calls[0].name}{agent} (span {subject.span_id})"
    return f"{subject.kind} {subject.id}{agent}"


def _verdict(rule: "Rule", trial: "Trial") -> str:
    decision = trial.decision
    if decision is None:
        return f"not_matched: {trial.matching.clause} does not hold" + (
            " (all its clauses do, so the subject is excluded)" if trial.matching.clause == "unless" else ""
        )
    outcome = decision.outcome or decision.kind
    why = decision.reason or (rule.title if outcome == "fail" else "")
    return f"{outcome}: {why}" if why else outcome


def _cell(value: "JsonValue") -> str:
    return "" if value is None else _cut(value if isinstance(value, str) else json_text(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"
