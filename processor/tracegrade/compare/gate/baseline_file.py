"""A saved baseline: a small text file for git, with how often each rule passed and failed, and no values.

It holds, for each rule and its hash, its outcomes, and its results as far as later tests need them: how many there are
of each session, and of each case and prompt (as a hash), so that what is judged later is compared in pairs and by whole
sessions as ``tracegrade compare`` does. A rule with many different prompts is saved without them: traffic of which no
prompt comes again. What is alike is one line, with how often it is there; lines are sorted, so that git shows what
changed. A baseline may also name a stored run in place of results.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice, repeat
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field

from tracegrade.compare.collected import Place, Unit
from tracegrade.compare.gate.results import Results
from tracegrade.compare.tally import RuleTallies
from tracegrade.document.file_model import FileModel
from tracegrade.document.problem import FileError, Problem
from tracegrade.document.validate import validate
from tracegrade.document.yaml_text import read
from tracegrade.model.errors import NotPossible
from tracegrade.model.tally import Tally, total
from tracegrade.store.schema import WHOLE_RULE

FORMAT: Literal["tracegrade baseline"] = "tracegrade baseline"
VERSION = 1
MOST_NAMES = 200
"""A rule with more different prompts is saved without them, one with more cases without those."""

MOST_RESULTS = 10_000_000
_DIGITS = 6
_Result: TypeAlias = tuple[str, str, float, bool]  # case, prompt, probability, whether it passed


class SavedThing(FileModel):
    """So many passes and fails of one case, or prompt, or of nothing that has a name."""

    case: str | None = Field(default=None, description="The id of the case that was met.")
    prompt: str | None = Field(default=None, description="The agent, and the hash of what it was asked.")
    passed: int = Field(default=0, ge=0, alias="pass", description="How many passed.")
    failed: int = Field(default=0, ge=0, alias="fail", description="How many failed.")
    probability: float = Field(default=1.0, gt=0, le=1, description="How probable it was that each is kept.")


class SavedGroup(FileModel):
    """Results that go together, ``times`` over; of a single result there is no ``together``."""

    together: Literal["session", "trace"] | None = Field(default=None, description="What they are of.")
    times: int = Field(default=1, ge=1, description="How often there are such results.")
    results: list[SavedThing] = Field(min_length=1, description="What is in it.")


class SavedRule(FileModel):
    """One content of a rule."""

    level: str = Field(default="", description="Its level when this was saved.")
    pass_rate: float | None = Field(default=None, description="For readers; what counts are the results.")
    passed: int = Field(ge=0, le=MOST_RESULTS, alias="pass", description="How many results passed.")
    failed: int = Field(ge=0, le=MOST_RESULTS, alias="fail", description="How many failed.")
    not_evaluable: int = Field(ge=0, description="How many could not be judged.")
    error: int = Field(ge=0, description="Of how many judging failed.")
    incomplete: int = Field(ge=0, description="How many are of incomplete traces, and do not count.")
    kept: float = Field(default=1.0, gt=0, le=1, description="Sampling rate of passes relative to fails.")
    groups: list[SavedGroup] = Field(default=[], description="The passes and fails.")

    @property
    def sums(self) -> tuple[int, int]:
        """The passes and fails of all groups."""
        found = [(group.times, thing) for group in self.groups for thing in group.results]
        return sum(times * thing.passed for times, thing in found), sum(times * thing.failed for times, thing in found)


class SavedBaseline(FileModel):
    """The whole file."""

    format: Literal["tracegrade baseline"] = Field(description="What this file is.")
    version: int = Field(description="Of the format.")
    name: str = Field(description="What not_worse_than and --baseline call it.")
    source: str = Field(description="What it was saved from.")
    saved: str = Field(description="When, UTC.")
    tracegrade: str = Field(description="The version that saved it.")
    git_revision: str | None = Field(default=None, description="Of the folder in which it was saved.")
    run: str | None = Field(default=None, description="A stored run, which has the results.")
    tenant: str = Field(default="default", description="Whose run that is.")
    rules: dict[str, dict[str, SavedRule]] = Field(default={}, description="By rule id, then by the rule's hash.")

    @property
    def results(self) -> Results:
        """What it holds, as `compare` reads results from the store."""
        own = count(1)
        found = Results()
        for rule_id, contents in self.rules.items():
            for rule_hash, rule in contents.items():
                units = list(_units(rule.groups, own))
                judged = (Tally.one("pass" if unit.passed else "fail", unit.probability) for unit in units)
                others = Tally.of(0, 0, rule.not_evaluable, rule.error)._replace(incomplete=rule.incomplete)
                found.tallies[rule_id, rule_hash] = RuleTallies(total([*judged, others]), kept=rule.kept)
                found.units[rule_id, rule_hash, WHOLE_RULE] = units
        return found


def read_baseline(path: Path) -> SavedBaseline:
    """The baseline in a file.

    Raises:
        FileError: it cannot be read, or is not a baseline; with every mistake and its place.
        NotPossible: it is one of another format.
    """
    document = read(path)
    head = document.value if isinstance(document.value, dict) else {}
    if head.get("format") != FORMAT:
        raise FileError([Problem(str(path), 1, 1, f"no saved baseline: expected 'format': '{FORMAT}'")])
    if (version := head.get("version")) != VERSION:
        raise NotPossible(
            f"{path}: the baseline has the format version {version}, and this TraceGrade reads {VERSION}: save it again"
        )
    found = validate(document, SavedBaseline)
    wrong = [
        document.problem(
            ("rules", rule_id, rule_hash),
            f"the groups have {passed} passes and {failed} fails, and 'pass' and 'fail' say {rule.passed} and "
            f"{rule.failed}: save the baseline again",
        )
        for rule_id, contents in found.rules.items()
        for rule_hash, rule in contents.items()
        for passed, failed in [rule.sums]
        if (passed, failed) != (rule.passed, rule.failed)
    ]
    if wrong:
        raise FileError(wrong)
    return found


def saved_rules(results: Results) -> dict[str, dict[str, SavedRule]]:
    """What a file holds of `results`; rules that matched nothing are left out."""
    found: defaultdict[str, dict[str, SavedRule]] = defaultdict(dict)
    for (rule_id, rule_hash), tallies in sorted(results.tallies.items()):
        tally = tallies.whole
        if not tally.subjects:
            continue
        rate = tally.pass_rate
        found[rule_id][rule_hash] = SavedRule(
            level=results.levels.get(rule_id, ""),
            pass_rate=None if rate is None else round(rate, _DIGITS),
            passed=tally.passed,
            failed=tally.failed,
            not_evaluable=tally.not_evaluable,
            error=tally.errors,
            incomplete=tally.incomplete,
            kept=tallies.kept,
            groups=_groups(results.units.get((rule_id, rule_hash, WHOLE_RULE), ())),
        )
    return dict(found)


def baseline_text(saved: SavedBaseline) -> str:
    """The file's text: keys sorted, and each group on a line of its own."""
    return "\n".join(_lines(saved.model_dump(by_alias=True, exclude_defaults=True), "")) + "\n"


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    yield "{"
    inside = indent + "  "
    for place, (key, item) in enumerate(sorted(value.items()), 1):
        comma = "," if place < len(value) else ""
        head = f"{inside}{_json(key)}: "
        if isinstance(item, dict):
            first, *others = _lines(item, inside)
            yield head + first
            yield from others[:-1]
            yield others[-1] + comma
        elif isinstance(item, list):
            rows = sorted(map(_json, item))
            yield f"{head}["
            yield from (f"{inside}  {row}{',' if number < len(rows) else ''}" for number, row in enumerate(rows, 1))
            yield f"{inside}]{comma}"
        else:
            yield f"{head}{_json(item)}{comma}"
    yield indent + "}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _groups(units: Sequence[Unit]) -> list[SavedGroup]:
    """The units by what they are of; those that are alike together."""
    keeps_cases = len({unit.case for unit in units}) <= MOST_NAMES
    keeps_prompts = len({unit.prompt for unit in units}) <= MOST_NAMES
    clusters: defaultdict[tuple[str, str | bytes], Counter[_Result]] = defaultdict(Counter)
    for unit in units:
        case, prompt = unit.case if keeps_cases else None, unit.prompt if keeps_prompts else None
        result = (case or "", prompt or "", unit.probability, unit.passed)
        clusters[unit.place.tenant, unit.place.cluster][result] += 1
    kinds = Counter(
        (_together(cluster, results), tuple(sorted(results.items()))) for (_, cluster), results in clusters.items()
    )
    return [
        SavedGroup(together=together, times=times, results=_things(results))
        for (together, results), times in kinds.items()
    ]


def _together(cluster: str | bytes, results: Counter[_Result]) -> Literal["session", "trace"] | None:
    if results.total() == 1:
        return None
    return "session" if isinstance(cluster, str) else "trace"


def _things(results: Iterable[tuple[_Result, int]]) -> list[SavedThing]:
    sums: defaultdict[tuple[str, str, float], list[int]] = defaultdict(lambda: [0, 0])
    for (case, prompt, probability, passed), number in results:
        sums[case, prompt, probability][not passed] += number
    return [
        SavedThing(case=case or None, prompt=prompt or None, probability=probability, passed=passed, failed=failed)
        for (case, prompt, probability), (passed, failed) in sums.items()
    ]


def _units(groups: Iterable[SavedGroup], own: Iterator[int]) -> Iterator[Unit]:
    """The results that `groups` stand for; `own` numbers what goes together."""
    for group in groups:
        for number in islice(own, group.times):
            cluster = str(number) if group.together == "session" else number.to_bytes(8)
            place = Place("", b"", cluster)
            for thing in group.results:
                for passed, times in ((True, thing.passed), (False, thing.failed)):
                    yield from repeat(Unit(place, "", thing.case, thing.prompt, passed, thing.probability), times)
