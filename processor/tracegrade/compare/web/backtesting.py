"""Backtests for the page and the API: what a changed rule would have said of stored traces, by a process of its own."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tracegrade.access.caller import Caller
from tracegrade.alert.preview import Preview
from tracegrade.assemble.settings import TracesSettings
from tracegrade.compare.backtest.backtest import Asked, backtest
from tracegrade.compare.backtest.sources import Rules
from tracegrade.document.problem import FileError, Problem
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import read
from tracegrade.model.errors import NotPossible
from tracegrade.plugins.installed import load_plugins
from tracegrade.queries.parameters import JudgedTracesQuery
from tracegrade.queries.times import time_of
from tracegrade.rule.reading import RuleReading
from tracegrade.rule.rule import Rule
from tracegrade.store.open import reading_store
from tracegrade.web.own_process import LONGEST_S, OwnProcess
from tracegrade.web.sources import Sources

SINCE = "30d"
"""Which traces are judged, unless another time is asked for."""

_NAME = "rule.yaml"


class WrongRule(NotPossible):
    """The text is no rule; ``problems`` say where and why."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


@dataclass(frozen=True, slots=True)
class Backtested:
    """What it would have said.

    ``document`` is the documented JSON object. ``judged``: how much was judged, for people. ``alerts``: when alerts
    would have fired, None without any. ``notes``: what else is to be known, such as what was left out.
    """

    document: Mapping[str, Any]
    judged: str
    alerts: Preview | None
    notes: Sequence[str]


class Backtesting:
    """Backtests rules, one at a time."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        hint = "choose a shorter time, or call 'tracegrade rules backtest'"
        self._process = OwnProcess("backtest", NotPossible, hint, longest_s)

    def backtest(self, sources: Sources, text: str, query: JudgedTracesQuery, caller: Caller) -> Backtested:
        """What a rule would have said; without explanations, which quote values, for callers who may not see those.

        Args:
            sources: what is read.
            text: of the rule's file.
            query: which traces it is to judge: those of the last `SINCE`, unless it says since when.
            caller: who asks.

        Raises:
            WrongRule: the text is no rule.
            NotPossible: there is nothing to judge, or that takes too long.
            Busy: another backtest is being made.
            StoreError: there is no store, or it cannot be read.
        """
        now_ns = time.time_ns()
        since_ns = time_of(SINCE) if query.since is None else query.since
        until_ns = now_ns if query.until is None else min(query.until, now_ns)
        if since_ns >= until_ns:
            raise NotPossible("there is no trace between the two times: the first is not before the second, or now")
        with sources.store():  # else the other process would say that there is none
            pass
        config = sources.config
        # Made here, so that it goes also when the process is killed.
        with TemporaryDirectory(prefix="tracegrade-") as folder:
            path = Path(folder, _NAME)
            path.write_text(text.replace("\r\n", "\n"), "utf-8")
            reading = RuleReading(config.rules.semantic_model)
            place = _Place(config.store_url, sources.tenant, config.data_path, config.traces, reading)
            wanted = replace(query, since=since_ns, until=until_ns)
            found = self._process.call(_work, path, wanted, place, is_stopping=sources.is_stopping)
        if isinstance(found, list):
            raise WrongRule(found)
        return found if caller.may("read-values") else replace(found, document=_without_values(found.document))


BACKTESTING = Backtesting()
"""That of the page and the API of this process."""


class _Place(NamedTuple):
    """Where traces are, and the settings that judging reads."""

    store_url: str
    tenant: str | None
    data_path: Path
    settings: TracesSettings
    reading: RuleReading


def _work(path: Path, query: JudgedTracesQuery, place: _Place) -> Backtested | list[Problem]:
    """What the other process does; what is wrong with the text, if anything is."""
    load_plugins()
    try:
        with place.reading.in_force():
            validate(read(path), Rule)  # before it is read as a file, which might name a file of code
        rule_set = place.reading.load([path])
    except FileError as error:
        return [replace(problem, path="rule") for problem in error.problems]
    assert query.since is not None
    assert query.until is not None
    wanted = Asked(
        rules=Rules("the text", [path.as_posix()], rule_set),
        other=None,
        # Also where only its text changed: its alerts may be others.
        named=[rule.id for rule in rule_set.rules],
        since_ns=query.since,
        until_ns=query.until,
        service=query.service,
        agent=query.agent,
        release=query.release,
        tenant=query.tenant,
        settings=place.settings,
        reading=place.reading,
        data_path=place.data_path,
    )
    with reading_store(place.store_url, place.tenant) as connection:
        found = backtest(connection, wanted)
    found.paths = {}  # nobody knows that folder
    left_alone = [f"{rule_id}: not judged by, it {reason}" for rule_id, reason in found.left_alone.items()]
    notes = [*found.left_out_notes(), *left_alone, *found.notes]
    return Backtested(found.to_json(), found.judged, found.alerts, notes)


def _without_values(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**document, "rules": [{**rule, "changes": _unexplained(rule["changes"])} for rule in document["rules"]]}


def _unexplained(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    without = {"explanation": "", "explanation_before": ""}
    return {
        way: {**found, "examples": [example | without for example in found["examples"]]}
        for way, found in changes.items()
    }
