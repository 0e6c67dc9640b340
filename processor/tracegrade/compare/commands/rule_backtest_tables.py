"""How ``rules backtest`` shows what changed rules would have said."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracegrade.cli.alerts import print_preview
from tracegrade.cli.output import Styled, markdown_table, print_line, print_table, styled
from tracegrade.cli.reports import as_markdown, link_markdown
from tracegrade.compare.backtest.changes import WAYS
from tracegrade.compare.words import rate_text
from tracegrade.display import count, time_text

if TYPE_CHECKING:
    from tracegrade.alert.notify.links import Links
    from tracegrade.compare.backtest.backtest import Backtest
    from tracegrade.compare.backtest.changes import BeforeAndAfter, Example, RuleChange, Way
    from tracegrade.compare.store.backfills import StoredBackfill
    from tracegrade.model.tally import Tally

_RULE_COLUMNS = ("rule", "before", "after", "newly fail", "newly pass", "newly matched", "no longer matched")
_GROUP_COLUMNS = ("rule", "agent", "release", "before", "after", "results before", "after ")
_MOST_GROUPS = 10  # of a rule; JSON has all
_STYLES = {"fail": "bold red", "pass": "green", "error": "bold magenta", "not_evaluable": "yellow"}


def print_backtest(found: "Backtest", links: "Links") -> None:
    """Print all of a backtest; `links` are the addresses of traces."""
    if found.changes:
        print_line(_summary(found))
        whole = ["before", "after", "newly fail", "newly pass", "no longer matched"]
        print_table("", _RULE_COLUMNS, list(_rule_rows(found)), whole=whole)
        examples = list(_example_rows(found, links))
        if examples:
            columns = ["rule", "was, is", "agent", "release", "trace", "why"]
            print_table("", columns, examples, whole=["trace"], spare=["release", "agent"])
        groups = [row for change in found.changes for row in _group_rows(change)]
        if groups:
            print_table("", _GROUP_COLUMNS, groups, whole=_GROUP_COLUMNS[3:], spare=_GROUP_COLUMNS[5:])
        if found.alerts is not None:
            print_preview(found.alerts, links)
    for line in notes(found):
        print_line(line)


def backtest_markdown(found: "Backtest", links: "Links") -> str:
    """All of a backtest for a comment on a pull request; explanations, which quote values, are left out."""
    parts = [f"## {_headline(found)}"]
    if found.changes:
        rows = [[as_markdown(cell) for cell in row] for row in _rule_rows(found)]
        parts += [as_markdown(_summary(found)), markdown_table(_RULE_COLUMNS, rows)]
        named = [
            [as_markdown(change.rule.id), _change_text(example), link_markdown(example.trace_id, links)]
            for change, example in _examples(found)
        ]
        parts += [markdown_table(["rule", "was, is", "trace"], named)] if named else []
        groups = [list(map(as_markdown, row)) for change in found.changes for row in _group_rows(change)]
        parts += [markdown_table(_GROUP_COLUMNS, groups)] if groups else []
        if found.alerts is not None:
            fired = [
                [as_markdown(alert.rule_id), time_text(alert.starts_ns), time_text(alert.ends_ns or 0)]
                for alert in found.alerts.fired
            ]
            columns = ["alert of", "would have fired (UTC)", "until"]
            parts.append(markdown_table(columns, fired) if fired else "No alert would have fired.")
    lines = [f"- {as_markdown(note)}" for note in notes(found)]
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])


def notes(found: "Backtest") -> Iterator[str]:
    """What else is to be known: what was left out, and why."""
    yield from found.left_out_notes()
    for rule_id, reason in found.left_alone.items():
        yield f"{rule_id}: left alone, it {reason}"
    if found.gone:
        yield f"only in {found.against}: {', '.join(found.gone)}"
    yield from found.notes
    if found.stored is not None:
        yield from _stored(found.stored)
    if not found.changes:
        yield "Nothing to judge: no rule changed; --rule ID names one to judge all the same."


def _stored(stored: "StoredBackfill") -> Iterator[str]:
    subjects = f"{count(stored.subjects, 'subject')} in {count(stored.traces, 'trace')}"
    yield f"stored as run backfill: the results of {subjects}; charts show them, alerts take them as their baseline"
    if stored.judged_live:
        yield f"{count(stored.judged_live, 'subject')} not stored: the rule has judged them live as it is"
    if stored.changed:
        yield f"{count(stored.changed, 'trace')} not stored: deleted, replaced or damaged meanwhile"


def _headline(found: "Backtest") -> str:
    fails = sum(change.changed("newly_fails") + change.ending("newly_matched", "fail") for change in found.changes)
    passes = sum(change.changed("newly_passes") for change in found.changes)
    if not found.changes:
        return "Backtest: no rule changed"
    return f"Backtest: {count(fails, 'subject')} newly fail, {passes} newly pass"


def _summary(found: "Backtest") -> str:
    which = "what was judged live" if found.against == "live" else found.against
    times = f"{time_text(found.since_ns)} to {time_text(found.until_ns)} (UTC)"
    number: Counter[str] = Counter(found.states.values())
    words = (("changed", "changed rule"), ("new", "new rule"), ("same", "unchanged rule"))
    rules = ", ".join(count(number[state], what) for state, what in words if number[state])
    return f"{rules} on {found.judged} from {times}, against {which}"


def _rule_rows(found: "Backtest") -> "Iterator[list[str]]":
    for change in found.changes:
        ways = [_number(change, way) for way in WAYS if way != "newly_unjudged"]
        rates = rate_text(change.whole.before.pass_rate), rate_text(change.whole.after.pass_rate)
        name = f"{change.rule.id} (new)" if found.states[change.rule.id] == "new" else change.rule.id
        yield [name, *rates, *ways]


def _number(change: "RuleChange", way: "Way") -> str:
    """How many subjects changed so; of those that have no counterpart, how many of them fail."""
    number = change.changed(way)
    fails = change.ending(way, "fail") if way in ("newly_matched", "no_longer_matched") else 0
    what = "fail" if way == "newly_matched" else "failed"
    return f"{number:,}, {fails:,} {what}" if fails else f"{number:,}"


def _examples(found: "Backtest") -> "Iterator[tuple[RuleChange, Example]]":
    for change in found.changes:
        for examples in change.examples.values():
            yield from ((change, example) for example in examples)


def _example_rows(found: "Backtest", links: "Links") -> "Iterator[list[str | Styled | None]]":
    for change, example in _examples(found):
        words = styled(f"{_word(example.before)}, ") + styled(_word(example.after), _STYLES.get(example.after, ""))
        why = example.explanation or (f"before: {example.explanation_before}" if example.explanation_before else "")
        trace = links.trace(example.trace_id)
        yield [change.rule.id, words, example.agent, example.release, trace, why]


def _change_text(example: "Example") -> str:
    return f"{_word(example.before)}, {_word(example.after)}"


def _word(word: str) -> str:
    return {"": "not judged", "not_evaluable": "not evaluable", "sampled_out": "not in the sample"}.get(word, word)


def _group_rows(change: "RuleChange") -> list[list[str]]:
    """The outcomes by agent and release; nothing where there is only one of both, which the whole rule shows."""
    groups = list(change.groups.items())
    return [] if len(groups) < 2 else [_group_row(change, *group) for group in groups[:_MOST_GROUPS]]


def _group_row(change: "RuleChange", of: tuple[str, str | None], both: "BeforeAndAfter") -> list[str]:
    agent, release = of
    rates, results = zip(*map(_rate_and_results, (both.before, both.after)), strict=True)
    return [change.rule.id, agent, release or "", *rates, *results]


def _rate_and_results(tally: "Tally") -> tuple[str, str]:
    return rate_text(tally.pass_rate), f"{tally.judged:,}"
