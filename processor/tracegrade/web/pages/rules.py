"""``/rules``: the rules in force. ``/rules/{id}``: one, its results by content, its tests, and what changed."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

from markupsafe import Markup
from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.alert.stored_slos import with_objectives
from tracegrade.document.problem import FileError
from tracegrade.document.yaml_text import dumped, parse, read
from tracegrade.model.tally import NO_RESULTS, Tally, total
from tracegrade.rule.explained import paragraphs
from tracegrade.rule.load import tests_path
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import stored_silences
from tracegrade.store.backfills import stored_backfills
from tracegrade.store.incidents import recent_incidents
from tracegrade.store.rule_texts import RuleText, judgements, rule_versions
from tracegrade.store.schema import BACKFILL
from tracegrade.store.tallies import begins_ns, tallies
from tracegrade.web.budgets import shown_budgets
from tracegrade.web.charts.trends import trend
from tracegrade.web.failures import failures
from tracegrade.web.incidents import shown_incidents
from tracegrade.web.places import places
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of
from tracegrade.web.view import FILTERS, View, filter_choices, view_of

_FILTERS = [name for name in FILTERS if name != "rule"]
_FAILURES = 8
_INCIDENTS = 10
_BUDGETS = 20


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a rule: since when it is known, its texts, latest first, and its results in the range shown."""

    rule_hash: str
    since_ns: int
    tally: Tally
    in_force: bool
    texts: list[RuleText]


def show_all(request: Request) -> Response:
    """All rules in force, by id."""
    sources, view = sources_of(request), view_of(request, _FILTERS)
    rules = sources.rule_set().rules
    counting = [rule.id for rule in rules if rule.incomplete == "count"]
    with sources.store() as connection:
        found = tallies(connection, view.result_filter, ["rule_id"], incomplete=counting, one_form=True)
        changes = {rule_id: since_ns for rule_id, (_, since_ns) in judgements(connection).items()}
        choices = _choices(connection, sources.rule_set())
    rows = [(rule, found.get((rule.id,), NO_RESULTS), _evaluators(rule), changes.get(rule.id, 0)) for rule in rules]
    return page(request, "rules.html", title="Rules", view=view, choices=choices, rows=rows)


def show(request: Request) -> Response:
    """One rule; ``from`` and ``to`` are the hashes of the two texts that are compared."""
    sources, view = sources_of(request), view_of(request, _FILTERS)
    rule_id = request.path_params["rule_id"]
    rule = sources.rule_set().rule(rule_id)
    result_filter = View(view.path, view.window, {**view.chosen, "rule": rule_id}).result_filter
    counting = [rule_id] if rule is not None and rule.incomplete == "count" else []
    with sources.store() as connection:
        charted = view.window.charted(begins_ns(connection, result_filter), time.time_ns())
        texts = rule_versions(connection, rule_id, sources.tenant)
        by_hash = tallies(connection, result_filter, ["rule_hash"], incomplete=counting)
        # Two curves: of a changed rule, its earlier form judged live what the new one judged afterwards.
        live, afterwards = (
            {
                step: tally
                for (step,), tally in tallies(
                    connection, chosen, step_minutes=charted.step_minutes, incomplete=counting
                ).items()
            }
            for chosen in (replace(result_filter, with_backfilled=False), replace(result_filter, run=BACKFILL))
        )
        tally = tallies(connection, result_filter, incomplete=counting, one_form=True).get((), NO_RESULTS)
        by_place = tallies(
            connection, result_filter, ["service", "agent", "release"], incomplete=counting, one_form=True
        )
        backfills = stored_backfills(connection, rule_id, view.chosen.get("tenant"))
        failed = failures(connection, result_filter, _FAILURES, token_of(request))
        with_slo = [rule] if rule is not None and rule in with_objectives(sources.rule_set()) else []
        budgets = shown_budgets(connection, with_slo, view.chosen, _BUDGETS)
        incidents = recent_incidents(connection, 0, _INCIDENTS, result_filter=result_filter)
        silences = stored_silences(connection, time.time_ns())
        choices = _choices(connection, sources.rule_set())
    if rule is None and not texts and not by_hash:
        raise HTTPException(404, f"No rule {rule_id!r} is in force, and none of that id has results here.")
    path = sources.rule_set().paths.get(rule_id, "") if rule is not None else ""
    return page(
        request,
        "rule.html",
        title=rule_id,
        view=view,
        choices=choices,
        judged_heads="sessions" if rule is not None and rule.scope == "session" else "traces",
        rule_id=rule_id,
        rule=rule,
        explained=list(_blocks(paragraphs(rule, path))) if rule is not None else [],
        text=_file_text(rule, path) if rule is not None else texts[0].text if texts else "",
        tests=_tests(path),
        latest_text=texts[0].text_hash if texts else "",
        versions=_versions(rule, texts, {rule_hash: tally for (rule_hash,), tally in by_hash.items()}),
        changes=_changes(texts, request.query_params.get("from"), request.query_params.get("to")),
        tally=tally,
        interval=tally.interval,
        trend=trend(live, charted, afterwards) if live or afterwards else Markup(""),
        backfills=backfills,
        afterwards=total(afterwards.values()),
        failures=failed,
        places=places(by_place),
        budgets=budgets,
        incidents=shown_incidents(incidents, silences, time.time_ns()),
        may_run=token_of(request).may("run"),
    )


def _choices(connection: Connection, rule_set: RuleSet) -> dict[str, list[str]]:
    return {name: values for name, values in filter_choices(connection, rule_set).items() if name in _FILTERS}


def _evaluators(rule: Rule) -> list[str]:
    return list(dict.fromkeys(spec.evaluator.name for spec in rule.specs))


def _blocks(lines: Iterator[str]) -> Iterator[list[tuple[str, list[str]]]]:
    """Paragraphs and lists: the items of a list, each with those below it, come together after the line before them."""
    block: list[tuple[str, list[str]]] = []
    for line in lines:
        is_item, is_below = line.startswith("  - "), line.startswith("    - ")
        if not is_item and not is_below and block:
            yield block
            block = []
        if is_below:
            block[-1][1].append(line.removeprefix("    - "))
        elif line:
            block.append((line.removeprefix("  - "), []))
    if block:
        yield block


def _versions(rule: Rule | None, texts: Sequence[RuleText], tallies: dict[str, Tally]) -> list[Version]:
    """Every known version, the one in force first, then the latest."""
    by_hash: dict[str, list[RuleText]] = {} if rule is None else {rule.hash: []}
    for item in texts:
        by_hash.setdefault(item.rule_hash, []).append(item)
    for rule_hash in tallies:
        by_hash.setdefault(rule_hash, [])
    return [
        Version(
            rule_hash,
            min((item.since_ns for item in found), default=0),
            tallies.get(rule_hash, NO_RESULTS),
            rule is not None and rule_hash == rule.hash,
            found,
        )
        for rule_hash, found in by_hash.items()
    ]


def _file_text(rule: Rule, path: str) -> str:
    """The text of the rule's file, as it was written; made from the rule where the file says something else by now."""
    try:
        text = Path(path).read_text("utf-8") if path else ""
        if parse(text, path).value == rule.written:
            return text
    except (OSError, UnicodeDecodeError, FileError):
        pass
    return dumped(rule.written)


def _tests(path: str) -> list[dict[str, Any]]:
    """The rule's own tests as they are written; [] when none can be read."""
    written = tests_path(Path(path)) if path else None
    if written is None or not written.exists():
        return []
    try:
        found = read(written).value
    except FileError:
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _changes(texts: Sequence[RuleText], old: str | None, new: str | None) -> dict[str, Any] | None:
    """The lines that differ between two texts: those asked for, else the latest two."""
    by_hash = {item.text_hash: item for item in texts}
    if old is None and new is None and len(texts) > 1:
        new, old = texts[0].text_hash, texts[1].text_hash
    if old not in by_hash or new not in by_hash:
        return None
    before, after = (by_hash[found].text.splitlines() for found in (old, new))
    lines = [line for line in unified_diff(before, after, n=3, lineterm="")][2:]
    return {"old": old, "new": new, "lines": [line for line in lines if not line.startswith("@@")]}
