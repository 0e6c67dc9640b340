"""The bound of one evaluation, in work and never in time: the same inputs always give the same answer (promise 9)."""

from typing import TYPE_CHECKING

from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_mask, is_open, is_unknown, known_text
from tracegrade.model.tri import Tri, Unknown, UnknownKind

if TYPE_CHECKING:
    from tracegrade.evaluate.evidence import Evidence

# Steps, each well under half a microsecond: the largest evaluation takes one to two seconds, an everyday one some
# hundred steps.
WORK_LIMIT = 5_000_000
# Beginning a search by an expression, whatever the text.
STEPS_OF_A_SEARCH = 14
# Comparing this many characters counts as one step more: text is compared by the machine, not by Python.
CHARACTERS_PER_STEP = 1024
# Decoding or searching text takes longer than comparing it.
CHARACTERS_READ_PER_STEP = 16


class Work:
    """Counts the steps of one evaluation and stops it at the bound; and knows which call is being compared.

    ``evidence`` and ``position`` (of the call whose value is compared) are for criteria that depend on what came
    before, such as ``$from``. ``unknown`` is the first unknown answer that the score depends on, None without one.
    ``optimistic``: what is unknown counts as what was expected; otherwise it does not.
    """

    __slots__ = ("_read", "_within", "evidence", "left", "limit", "optimistic", "position", "unknown")

    def __init__(
        self,
        limit: int = WORK_LIMIT,
        evidence: "Evidence | None" = None,
        *,
        within: "Work | None" = None,
        optimistic: bool = False,
    ) -> None:
        """`within`: the evaluation that this is a part of, where it has a bound of its own."""
        self.limit = limit
        self.left = limit
        self.evidence = evidence
        self.position: int | None = None
        self.unknown: Unknown | None = None
        self.optimistic = optimistic
        self._within = within
        self._read: set[object] | None = None

    @property
    def redacted(self) -> bool:
        """Whether what looks like a mask or a hash is one."""
        return self.evidence is not None and self.evidence.redacted

    def takes(self, answer: Tri) -> bool:
        """`answer`, an unknown one as ``optimistic`` says; the first unknown one is noted in ``unknown``."""
        if answer is True or answer is False:
            return answer
        self.note(answer)
        return self.optimistic

    def ends(self, answer: Tri) -> tuple[float, float]:
        """What `answer` counts where what is unknown is not as expected, and where it is; noted as by `takes`."""
        if answer is True or answer is False:
            return float(answer), float(answer)
        self.note(answer)
        return 0.0, 1.0

    def note(self, unknown: Unknown) -> None:
        """Note what the score depends on, in ``unknown``, if it is the first."""
        whole = self if self._within is None else self._within
        if whole.unknown is None or (whole.unknown.bounded and not unknown.bounded):
            whole.unknown = unknown

    def unbind(self) -> None:
        """What is unknown may make the score smaller by being as expected: one call may take another's place."""
        whole = self if self._within is None else self._within
        if whole.unknown is not None:
            whole.unknown = whole.unknown._replace(bounded=False)

    def hides(self, actual: JsonValue) -> Tri:
        """Unknown if `actual`, which is not what was expected, may be it all the same, as it was redacted; else no."""
        return self.unknown_value(actual) if self.is_hidden(actual) else False

    def unknown_value(self, actual: JsonValue, *, bounded: bool = True) -> Unknown:
        """Unknown since `actual`, a value of the call that is compared, was redacted in whole or in part."""
        kind: UnknownKind = "masked" if holds_mask(actual) else "hashed"
        position = self.position
        if position is None or self.evidence is None:
            return Unknown(kind, "final_answer", bounded=bounded)
        call = self.evidence.calls[position]
        return Unknown(kind, "arguments", position, call.name, call.span_id, bounded=bounded)

    def is_hidden(self, actual: object) -> bool:
        """Whether `actual` stands in place of a value that was redacted."""
        return self.redacted and is_unknown(actual)

    def is_open(self, actual: JsonValue) -> bool:
        """Whether members may have been in an object that are not there."""
        return self.redacted and is_open(actual)

    def known(self, text: str) -> str:
        """`text` with `UNKNOWN` in place of what was redacted."""
        return known_text(text) if self.redacted else text

    def spend_once(self, what: object, steps: int) -> None:
        """Count the steps of reading `what`, which is read once for all evaluations: each counts them, and once.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if self._read is None:
            self._read = set()
        if what not in self._read:
            self._read.add(what)
            self.spend(steps)

    def spend(self, steps: int = 1) -> None:
        """Count `steps`.

        Raises:
            EvaluatorError: ``work_bound``, more than the limit were taken.
        """
        self.left -= steps
        if self.left < 0:
            raise EvaluatorError(
                "work_bound",
                f"comparing the calls made with the calls expected takes more than {self.limit} steps; "
                "expect fewer calls, or judge a smaller subject (scope: agent, or tool-call)",
            )
