"""A rule in plain words, made from the rule: what it judges, when that passes, and who is notified."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from tracegrade.display import count, json_text
from tracegrade.evaluate.constraints.sides import rule_of
from tracegrade.evaluate.criteria.expected import Expected
from tracegrade.evaluate.pairing.by_name import PairingWord
from tracegrade.model.json_value import JsonValue
from tracegrade.rule.case import Case
from tracegrade.rule.clauses import Clauses
from tracegrade.rule.evaluation_spec import EvaluationSpec
from tracegrade.rule.gate import ANY_BASELINE
from tracegrade.rule.patterns import Patterns
from tracegrade.rule.rule import Rule

_WIDTH = 100
_SUBJECTS = {
    "agent": "agent run",
    "trace": "trace",
    "session": "session, which is all agent runs of one conversation",
    "tool-call": "tool call",
}
_CLAUSES = {
    "tenant": "the tenant {}",
    "service": "the service {}",
    "environment": "the environment {}",
    "release": "the release {}",
    "agent": "the agent {}",
    "prompt": "the prompt {}",
}
_PAIRED: dict[PairingWord, str] = {
    "best": "as many as possible count, each once",
    "first": "each counts for the first expected one that it fits, and is not given back for another",
    "positional": "the second is compared with the second that is expected, and so on",
}
_HEAD_KEYS = frozenset({"evaluator", "name", "threshold", "matchers", "id", "match"})
_MAX_SHOWN = 300  # characters of what is expected


def explained(rule: Rule, path: str, since: str = "", expected: Sequence[str] = ()) -> str:
    """The rule in paragraphs, for a terminal.

    Args:
        rule: what is explained.
        path: the file that it is written in.
        since: when it came in force, "" where that is not known.
        expected: of each of its alerts how soon it is expected to fire, "" where nothing is said.
    """
    lines = [*paragraphs(rule, path, expected), *([since] if since else [])]
    return "\n".join(line for paragraph in lines for line in _wrapped(paragraph))


def _wrapped(paragraph: str) -> list[str]:
    indent = " " * (paragraph.index("-") + 2) if paragraph.lstrip().startswith("- ") else ""
    return textwrap.wrap(
        paragraph, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def paragraphs(rule: Rule, path: str, expected: Sequence[str] = ()) -> Iterator[str]:
    """The rule line by line; items of lists begin with two blanks and a dash, "" stands between paragraphs."""
    yield f"{rule.id} ({rule.level}, {rule.status}): {rule.title or 'no title'}"
    if rule.description:
        yield ""
        yield " ".join(rule.description.split())
    yield ""
    yield from _judged(rule)
    yield ""
    yield from _passes(rule)
    if rule.explain:
        yield f"Of a fail it says: {rule.explain}"
    yield ""
    yield from _notified(rule, expected)
    yield from _gated(rule)
    for heading, lines in (("A fail means nothing when:", rule.false_positives), ("See:", rule.references)):
        if lines:
            yield ""
            yield heading
            yield from (f"  - {line}" for line in lines)
    yield ""
    yield f"Rule hash {rule.hash}, text {rule.text_hash}, written in {path}"


def _judged(rule: Rule) -> Iterator[str]:
    share = f"{rule.sample.share:.4g} of the traces"
    if rule.sample.share == 1:
        of = ""
    else:
        of = f", and keeps {share} and every fail" if rule.sample.keep_failures else f" in {share}"
    kind = _SUBJECTS[rule.scope]
    clauses = list(_clauses(rule, rule.match, rule.match_clauses))
    if rule.depth:
        kind += ", with the calls of the agents that it started"
        kind += f" and of theirs, {rule.depth} levels down" if rule.depth > 1 else ""
    yield f"It judges every {kind}{of}{f', where {_these_hold(clauses)}:' if clauses else '.'}"
    yield from (f"  - {clause}" for clause in clauses)
    if rule.when is not None:
        yield f"It does so only where {rule_of(rule.when)} was called."
    if rule.unless is not None:
        clauses = list(_clauses(rule, rule.unless, rule.unless_clauses))
        yield f"It leaves out those where {_these_hold(clauses)}:"
        yield from (f"  - {clause}" for clause in clauses)


def _these_hold(clauses: Sequence[str]) -> str:
    return "all of these hold" if len(clauses) > 1 else "this holds"


def _clauses(rule: Rule, clauses: Clauses, named: tuple[tuple[str, Patterns], ...]) -> Iterator[str]:
    for name, patterns in named:
        if name == "tools":
            tools = "any tool" if patterns.written in ("*", ["*"]) else _alternatives(patterns.written)
            yield f"{tools} is the tool" if rule.scope == "tool-call" else f"{tools} was called"
        else:
            attribute = name.removeprefix("attributes.")
            yield _CLAUSES.get(name, f"the attribute {attribute} {{}}").format(_is(patterns.written))
    if clauses.cel is not None:
        yield f"this is true: {clauses.cel.source}"


def _is(written: JsonValue) -> str:
    """What a value must be by one pattern, or by any of several."""
    if isinstance(written, list) and any(isinstance(pattern, dict) for pattern in written):
        return " or ".join(map(_is, written))
    if isinstance(written, dict) and "$regex" in written:
        return f"has a part that matches '{written['$regex']}'"
    return f"is {_alternatives(written)}"


def _alternatives(written: JsonValue) -> str:
    """One pattern, or several, any of which is right."""
    if isinstance(written, list):
        return " or ".join(map(_alternatives, written))
    if isinstance(written, dict) and "$regex" in written:
        return f"what has a part that matches '{written['$regex']}'"
    return "any" if written == "*" else written if isinstance(written, str) else json_text(written)


def _passes(rule: Rule) -> Iterator[str]:
    if rule.evaluate:
        yield "It passes when all of these pass:" if len(rule.evaluate) > 1 else "It passes when this passes:"
        for spec in rule.evaluate:
            yield f"  - {_evaluation(spec)}"
            yield from (f"    - {sentence}" for sentence in (*_sentences(spec), *_paired(spec)))
    if rule.when is not None:
        also = "It also passes only" if rule.evaluate else "It passes"
        passes = "all of these pass" if len(rule.then) > 1 else "this passes"
        yield f"{also} when {passes}, judged once, of all calls after the first such call:"
        for spec in rule.then:
            yield f"  - {_evaluation(spec)}"
            yield from (f"    - {sentence}" for sentence in (*_sentences(spec), *_paired(spec)))
    if rule.cases is not None:
        cases = rule.cases.all
        also = "also has" if rule.evaluate or rule.then else "has"
        yield f"It {also} {count(len(cases), 'case')}; a subject meets at most one, the first of these that is its own:"
        yield from (f"  - {_case(case)}" for case in cases)


def _evaluation(spec: EvaluationSpec) -> str:
    of_file = "" if spec.file is None else f" of {spec.file.written}"
    named = f"{spec.name if spec.name == spec.evaluator.name else f'{spec.name} ({spec.evaluator.name})'}{of_file}"
    least = "only the whole score, 1, passes" if spec.threshold == 1 else f"a score from {spec.threshold:g} on passes"
    sentences = _sentences(spec)
    said = {*spec.evaluator.Criteria.model_fields, *spec.evaluator.settings_said} if sentences else ()
    expected = ", ".join(
        f"{key}: {_field_text(value, spec.read(key))}"
        for key, value in spec.written.items()
        if key not in _HEAD_KEYS and key not in said
    )
    if said and not expected:
        return f"{named}: {spec.evaluator.summary} {least[0].upper()}{least[1:]}."
    return f"{named}: {spec.evaluator.summary} With {expected or 'its defaults'}; {least}."


def _sentences(spec: EvaluationSpec) -> Sequence[str]:
    """What is expected as its evaluator says it; none where the criteria say it best."""
    return spec.evaluator.sentences(spec.criteria, spec.settings)


def _paired(spec: EvaluationSpec) -> Iterator[str]:
    pairing = spec.evaluator.pairing(spec.criteria, spec.settings)
    if pairing is not None:
        yield f"of several calls of one tool, {_PAIRED[pairing]} (pairing: {pairing})"


def _case(case: Case) -> str:
    prompt = case.match.prompt
    for_whom = [f"the prompt {_alternatives(prompt.written)}"] if prompt is not None else []
    for_whom += [f"{name} {_alternatives(patterns.written)}" for name, patterns in case.match.attributes.items()]
    return f"{case.id}, for {' and '.join(for_whom) or 'the case id alone'}: {_evaluation(case.spec)}"


def _field_text(written: JsonValue, read: Any) -> str:
    """What is written of a field; a matcher that was read of it as a person would say it."""
    text = json_text(written)
    if isinstance(read, Expected) and isinstance(written, dict) and all(key.startswith("$") for key in written):
        said = read.in_words()
        text = said.removeprefix("is ") if said.startswith("is ") else f"what {said}"
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def _gated(rule: Rule) -> Iterator[str]:
    if (gate := rule.gate) is None:
        return
    parts = [] if gate.at_least is None else [f"its pass rate is at least {gate.at_least:.4g}"]
    if gate.not_worse_than is not None:
        named = gate.not_worse_than
        of = "the baseline" if named == ANY_BASELINE else f"the baseline {named!r}"
        margin = "" if gate.margin is None else f", where a fall by {gate.margin * 100:.4g} points does not matter"
        parts.append(f"it is not worse than in {of}{margin}")
    asks = f"In a gate it passes when {' and '.join(parts)}"
    yield f"{asks}; but no gate counts it, since it is {rule.status}." if rule.status != "stable" else f"{asks}."


def _notified(rule: Rule, expected: Sequence[str]) -> Iterator[str]:
    if rule.status == "experimental":
        yield "Its results are stored, and nobody is alerted: it is experimental."
    elif not rule.alert:
        yield "Its results are stored and sent on; nobody is alerted, since it has no alert."
    else:
        yield "Beyond its stored results, people are alerted when:"
        for number, alert in enumerate(rule.alert):
            how_soon = expected[number] if number < len(expected) else ""
            yield f"  - {alert.says}. {how_soon}" if how_soon else f"  - {alert.says}"
    counted = "count as well" if rule.incomplete == "count" else "are judged, and left out of pass rates and alerts"
    yield f"Incomplete traces {counted}."
