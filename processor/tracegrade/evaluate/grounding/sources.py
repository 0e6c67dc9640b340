"""What the agent was told: the prompt, and the outputs of its calls; and whether a claim stands there.

Outputs are read at any depth, keys as well, and texts in them as an answer is. A number is given if one of its readings
is, whatever its sign, or if a given number rounds to it; a date if the same day is given in any form; all else if it
stands there as whole words, in any letter case.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from tracegrade.evaluate.criteria.occurrences import folded, holds_words
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.grounding.claims import Claim, claims
from tracegrade.evaluate.grounding.dates import Day, days
from tracegrade.evaluate.grounding.numbers import decimals, readings
from tracegrade.evaluate.json_values import decoded
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue

_STEPS_OF_A_CLAIM = 60  # which is read as all that it may mean
_STEPS_OF_A_SUM = 5
_STEPS_OF_A_SCALAR = 3  # of an output
_STEPS_OF_A_NUMBER = 9
_STEPS_OF_A_ROUNDING = 6
_MOST_SUMMED = 2000  # different numbers


class Source(NamedTuple):
    """Where a value stands: the prompt, or the output of a call by its number from 1; and that call's span."""

    called: str
    span_id: str = ""


class Sources:
    """All that was given in one run, read once for all answers.

    ``steps`` is what reading takes. Every evaluation spends them, so that none depends on what was judged before it;
    where they are more than the limit, not all was read.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._work = Work()
        self._numbers: dict[Decimal, Source] = {}
        self._days: dict[Day, Source] = {}
        self._texts: list[tuple[Source, str]] = []
        self._rounded: dict[int, dict[Decimal, Source]] = {}
        with suppress(EvaluatorError):
            self._add_all(evidence)
        self.steps = self._work.limit - self._work.left

    def _add_all(self, evidence: Evidence) -> None:
        if evidence.prompt is not None:
            self._add(Source("prompt"), evidence.prompt)
        for number, call in enumerate(evidence.calls, 1):
            if call.output is not None:
                self._add(Source(f"{call.name}.output (call {number})", call.span_id), call.output)

    def _add(self, source: Source, value: JsonValue) -> None:
        texts = []
        if isinstance(value, str):
            self._work.spend(len(value) // CHARACTERS_READ_PER_STEP)
        for scalar in _scalars(decoded(value) if isinstance(value, str) else value):
            self._work.spend(_STEPS_OF_A_SCALAR)
            if isinstance(scalar, str):
                texts.append(scalar)
                for claim in claims(scalar, self._work):
                    self._add_claim(source, claim)
            elif not isinstance(scalar, bool) and scalar is not None:
                self._work.spend(_STEPS_OF_A_NUMBER)
                self._numbers.setdefault(abs(Decimal(str(scalar))), source)
                texts.append(str(scalar))
        self._texts.append((source, folded(" ".join(texts))))

    def _add_claim(self, source: Source, claim: Claim) -> None:
        if claim.kind == "date":
            for day in days(claim.text):
                self._days.setdefault(day, source)
                self._days.setdefault(day._replace(year=None), source)
                if day.year is not None:
                    self._numbers.setdefault(Decimal(day.year), source)
        elif claim.kind in ("number", "amount", "percent"):
            for number in readings(claim.text):
                self._numbers.setdefault(number, source)

    def of(self, claim: Claim, work: Work, rounded: set[int]) -> Source | None:
        """Where `claim` stands; None where it stands nowhere.

        Args:
            claim: what is looked for.
            work: of the evaluation.
            rounded: the numbers of decimals to which the evaluation has had all given numbers rounded, which are noted.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        work.spend(_STEPS_OF_A_CLAIM)
        if claim.kind == "date":
            return next((self._days[day] for day in sorted(days(claim.text), key=str) if day in self._days), None)
        if claim.kind in ("number", "amount", "percent"):
            return self._of_number(claim, work, rounded)
        words = folded(claim.text)
        for source, text in self._texts:
            work.spend(1 + len(text) // CHARACTERS_READ_PER_STEP)
            if (words in text) if claim.kind == "url" else holds_words(text, words, work):
                return source
        return None

    @cached_property
    def _ascending(self) -> Sequence[Decimal]:
        return sorted(self._numbers)

    def _of_number(self, claim: Claim, work: Work, rounded: set[int]) -> Source | None:
        for number in sorted(readings(claim.text)):
            shares = (number, number / 100) if claim.kind == "percent" else (number,)
            for wanted in shares:
                if (source := self._numbers.get(wanted)) is not None:
                    return source
            if places := decimals(claim.text):
                if places not in rounded:
                    work.spend(_STEPS_OF_A_ROUNDING * len(self._numbers))
                    rounded.add(places)
                if (source := self._rounded_to(places).get(number)) is not None:
                    return source
        return None

    def _rounded_to(self, places: int) -> dict[Decimal, Source]:
        """The given numbers rounded to so many decimals."""
        if places not in self._rounded:
            self._rounded[places] = {
                round(number, places): source for number, source in self._numbers.items() if number < 10**15
            }
        return self._rounded[places]

    def summing_up_to(self, claim: Claim, work: Work) -> tuple[Decimal, Decimal] | None:
        """Two given numbers that are `claim` together; None without such.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if claim.kind not in ("number", "amount") or len(self._numbers) > _MOST_SUMMED:
            return None
        for wanted in sorted(readings(claim.text)):
            work.spend(_STEPS_OF_A_SUM * len(self._numbers))
            for number in self._ascending:
                other = wanted - number
                if other <= 0 or number <= 0:
                    continue
                if other in self._numbers and other != number:
                    return number, other
        return None


def _scalars(value: JsonValue) -> Iterator[str | int | float | bool | None]:
    """All scalars inside, and the keys of objects; in no particular order."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            left.extend(item.keys())
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
        else:
            yield item
