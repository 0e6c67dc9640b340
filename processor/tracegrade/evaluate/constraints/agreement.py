"""``same: order_id``: the two calls of a constraint agree on a value.

A path is the name of an argument, or ``args.PATH`` or ``output.PATH``, with members joined by dots and items as
``[0]``. Both calls must have a value there, and the two must be equal as JSON values; a number and its text are equal,
since models write either. Null, and a value that is not there, agree with nothing.
"""

import re
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from tracegrade.display import json_text
from tracegrade.evaluate.compare.outputs import ActualOutputs, DecodedOutputs
from tracegrade.evaluate.criteria.text_matchers import text_of
from tracegrade.evaluate.evidence import CallPart, Evidence
from tracegrade.evaluate.json_values import Identities
from tracegrade.evaluate.unknown import of_call
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_mask, is_hashed, may_hide
from tracegrade.model.tri import Unknown

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_PATH = re.compile(r"[^.\[\]]+(?:\.[^.\[\]]+|\[\d+\])*")

# What people write for the parts of a call, as they stand elsewhere in a rule.
_MEANT = {"arguments": "args", "outputs": "output"}


def is_path(text: str) -> bool:
    """Whether it is members joined by dots, and items as ``[0]``."""
    return _PATH.fullmatch(text) is not None


UNKNOWN: Final = "unknown"
"""The key of a call whose value cannot be read."""

ANY: Final = "any"
"""The same in the optimistic reading: it agrees with every key."""

Key: TypeAlias = Hashable | Literal["unknown", "any"]
Sides: TypeAlias = tuple[Sequence["Key | None"], Sequence["Key | None"]]
Steps: TypeAlias = tuple[CallPart, tuple[str | int, ...]]


def _checked(value: Any) -> Any:
    """`value`, checked before pydantic does, which would say of each form in turn why it is none."""
    paths = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
    if not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"expected an argument's name, several, or pairs of paths, found {json_text(value)[:120]}")
    for path in paths:
        first, _, rest = path.partition(".")
        meant = ""
        if rest and first in _MEANT:
            meant = f"; write '{_MEANT[first]}.{rest}', or 'args.{path}' of an argument that is called {first!r}"
        if not _PATH.fullmatch(path) or path in ("args", "output") or meant:
            raise ValueError(f"expected an argument's name, args.PATH or output.PATH, found {path!r}{meant}")
    return value


Same: TypeAlias = Annotated[
    str | Annotated[list[str], Field(min_length=1)] | Annotated[dict[str, str], Field(min_length=1)],
    BeforeValidator(_checked),
]


def pairs_of(same: Same) -> list[tuple[str, str]]:
    """For each value the path in the call of the first word, and that in the other call."""
    if isinstance(same, dict):
        return list(same.items())
    return [(path, path) for path in ([same] if isinstance(same, str) else same)]


def words_of_same(same: Same) -> str:
    """It as a person would say it."""
    texts = [one if one == other else f"{one} as its {other}" for one, other in pairs_of(same)]
    return "the same " + " and ".join(texts)


def lacking(paths: Sequence[str], evidence: Evidence, position: int) -> list[str]:
    """Those of `paths` at which the call has no value, or null."""
    call = evidence.calls[position]
    found = []
    for path in paths:
        part, steps = steps_of(path)
        whole = call.arguments if part == "arguments" else evidence.once(DecodedOutputs)[position]
        if value_at(whole, steps)[0] is None:
            found.append(path)
    return found


class Keys:
    """The values on which calls agree, by position, as what is equal when they do.

    None: the call has no such value, and agrees with none; or it is not of that side. `UNKNOWN`: it cannot be read, and
    ``unknown`` has the reason by position. It keeps nothing of the calls, as what was found is remembered for longer
    than they live.
    """

    def __init__(
        self, same: Same | None, evidence: Evidence, work: Work, first: Sequence[bool], other: Sequence[bool] = ()
    ) -> None:
        """Read the values.

        Args:
            same: on what the calls agree.
            evidence: the calls.
            work: counts the steps.
            first: which calls the first side may mean, by position.
            other: which the other side may; () without one.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        self.unknown: dict[int, Unknown] = {}
        if same is None:
            self.of_first: list[Key | None] = [()] * len(evidence.calls)
            self.of_other: list[Key | None] = self.of_first
            return
        identities = Identities()
        pairs = pairs_of(same)
        paths, other_paths = [steps_of(path) for path, _ in pairs], [steps_of(path) for _, path in pairs]
        self.of_first = self._keys(paths, first, evidence, identities, work)
        self.of_other = self._keys(other_paths, other, evidence, identities, work)
        if evidence.redacted:
            _forget_lone_hashes(self.of_first, self.of_other)
            for keys, read in ((self.of_first, paths), (self.of_other, other_paths)):
                for position, key in enumerate(keys):
                    if key == UNKNOWN and position not in self.unknown:
                        self.unknown[position] = of_call("hashed", read[0][0], position, evidence.calls[position])

    def pessimistic(self) -> Sides:
        """The keys of both sides, where what is unknown agrees with nothing; it stays on the first side."""
        return self._keys_with(UNKNOWN, None)

    def optimistic(self) -> Sides:
        """The keys of both sides, where what is unknown agrees with all."""
        return self._keys_with(ANY, ANY)

    def _keys_with(self, first: Key | None, other: Key | None) -> Sides:
        """The keys of both sides, with these in place of unknown ones."""
        if not self.unknown:
            return self.of_first, self.of_other
        return (
            [first if key == UNKNOWN else key for key in self.of_first],
            [other if key == UNKNOWN else key for key in self.of_other],
        )

    def _keys(
        self,
        paths: Sequence[Steps],
        meant: Sequence[bool],
        evidence: Evidence,
        identities: Identities,
        work: Work,
    ) -> list[Key | None]:
        keys: list[Key | None] = []
        for position, may_be in enumerate(meant):
            key = _key(paths, position, evidence, identities, work) if may_be else None
            if isinstance(key, Unknown):
                self.unknown.setdefault(position, key)
                key = UNKNOWN
            keys.append(key)
        return keys


def _key(
    paths: Sequence[Steps], position: int, evidence: Evidence, identities: Identities, work: Work
) -> Key | Unknown | None:
    call = evidence.calls[position]
    found: list[Hashable] = []
    unknown: Unknown | None = None
    for part, steps in paths:
        work.spend(1 + len(steps))
        if (lack := call.lack_of(part, in_part=evidence.redacted)) is not None:
            unknown = unknown if unknown is not None else of_call(lack, part, position, call)
            continue
        whole: Any = call.arguments
        if part == "output":
            whole = evidence.once(ActualOutputs)[position].decoded(work)
        value, is_hidden = value_at(whole, steps)
        if evidence.redacted and (is_hidden or holds_mask(value)):
            unknown = unknown if unknown is not None else of_call("masked", part, position, call)
            continue
        if value is None:
            return None
        text = text_of(value)
        found.append(identities.of(value, work) if text is None else text)
    return tuple(found) if unknown is None else unknown


def _forget_lone_hashes(*sides: list[Key | None]) -> None:
    """Make unknown what was hashed where the same value was not hashed in all calls: both may be equal all the same."""
    known = [key for keys in sides for key in keys if isinstance(key, tuple)]
    if len({is_hashed(part) for key in known for part in key}) < 2:
        return
    for keys in sides:
        for place, key in enumerate(keys):
            if isinstance(key, tuple) and any(map(is_hashed, key)):
                keys[place] = UNKNOWN


@lru_cache(1024)
def steps_of(path: str) -> Steps:
    """The part of a call that a path begins in, and the members and indexes that lead on from there."""
    steps = tuple(int(index) if index else name for name, index in _STEP.findall(path))
    if len(steps) > 1 and steps[0] in ("args", "output"):
        return "arguments" if steps[0] == "args" else "output", steps[1:]
    return "arguments", steps


def value_at(value: JsonValue, steps: Sequence[str | int]) -> tuple[JsonValue, bool]:
    """What stands at a path, None where it leads nowhere; and whether something may have stood there then."""
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return None, may_hide(value, step)
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return None, may_hide(value, step)
    return value, False
