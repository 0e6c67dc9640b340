"""What agents do differently: which tools they call, how often, in which order, with what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracegrade.compare.arguments import NewArgument

MOST_VARIANTS = 100_000
"""So many different orders of a side are told apart; the traces of others are counted together."""

_LONGEST_VARIANT = 50
_SHOWN_VARIANTS = 20
_OTHERS = ("(other orders)",)
_CUT = "..."


@dataclass(slots=True)
class SideBehaviour:
    """What the traces of one side call; a trace stands for ``weight`` traces."""

    traces: float = 0.0
    traces_by_tool: Counter[str] = field(default_factory=Counter)
    calls_by_tool: Counter[str] = field(default_factory=Counter)
    variants: Counter[tuple[str, ...]] = field(default_factory=Counter)
    examples: dict[str | tuple[str, ...], str] = field(default_factory=dict)

    def add(self, trace_id: bytes, calls: Sequence[Any], weight: float) -> None:
        """Add one trace with the rows of its calls, in their order."""
        names = [call[0] for call in calls]
        self.traces += weight
        for name in names:
            self.calls_by_tool[name] += weight  # type: ignore[assignment]  # weights are no integers
        for name in set(names):
            self.traces_by_tool[name] += weight  # type: ignore[assignment]
            self.examples.setdefault(name, trace_id.hex())
        variant = tuple(names if len(names) <= _LONGEST_VARIANT else [*names[:_LONGEST_VARIANT], _CUT])
        if len(self.variants) >= MOST_VARIANTS and variant not in self.variants:
            variant = _OTHERS
        self.variants[variant] += weight  # type: ignore[assignment]
        self.examples.setdefault(variant, trace_id.hex())


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """How often one tool is called: the share of traces that call it, its calls a trace, and a trace of each side.

    ``change`` is ``new`` when only B calls it, ``gone`` when only A does, else "".
    """

    tool: str
    change: str
    share_a: float
    share_b: float
    calls_a: float
    calls_b: float
    trace_a: str | None
    trace_b: str | None


@dataclass(frozen=True, slots=True)
class Variant:
    """The tools of a trace in the order of their calls, and the share of traces that call them so."""

    tools: Sequence[str]
    share_a: float
    share_b: float
    trace_a: str | None
    trace_b: str | None


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Every tool, by name, and the orders whose share changed most, of ``orders_in_all`` different ones.

    ``arguments`` are those of which something is new on B.
    """

    tools: Sequence[ToolUsage]
    orders: Sequence[Variant]
    orders_in_all: int
    arguments: Sequence[NewArgument]


def behaviour(a: SideBehaviour, b: SideBehaviour, arguments: Sequence[NewArgument] = ()) -> Behaviour:
    """How the behaviour `b` differs from `a`; `arguments` are those of which something is new."""
    tools = [
        ToolUsage(
            name,
            "new" if not a.calls_by_tool[name] else "gone" if not b.calls_by_tool[name] else "",
            _share(a.traces_by_tool, name, a),
            _share(b.traces_by_tool, name, b),
            _share(a.calls_by_tool, name, a),
            _share(b.calls_by_tool, name, b),
            a.examples.get(name),
            b.examples.get(name),
        )
        for name in sorted({*a.calls_by_tool, *b.calls_by_tool})
    ]
    orders = [
        Variant(
            variant,
            _share(a.variants, variant, a),
            _share(b.variants, variant, b),
            a.examples.get(variant),
            b.examples.get(variant),
        )
        for variant in {*a.variants, *b.variants}
    ]
    orders.sort(key=lambda order: (-abs(order.share_b - order.share_a), order.tools))
    return Behaviour(tools, orders[:_SHOWN_VARIANTS], len(orders), arguments)


def _share(counted: Mapping[Any, float], key: object, side: SideBehaviour) -> float:
    return counted.get(key, 0.0) / side.traces if side.traces else 0.0
