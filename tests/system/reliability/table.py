"""The table of faults that a run prints: what was done, how often, what it cost."""

from dataclasses import dataclass
from math import isnan, nan


@dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    ``lost`` and ``doubled`` count spans, of those that were answered: downstream, and with a judge in the store;
    ``recovered_s`` is how long it took until all was well. What is doubled downstream was sent again, as the same
    bytes, because its answer had not come.
    """

    fault: str
    times: int
    lost: int
    doubled: int = 0
    recovered_s: float = nan
    seen: str = ""


def table(rows: list[Row]) -> str:
    """Markdown."""
    lines = [
        "| fault | times | lost | doubled | well again after | seen |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        recovered = "at once" if isnan(row.recovered_s) else f"{row.recovered_s:.1f} s"
        lines.append(f"| {row.fault} | {row.times:,} | {row.lost} | {row.doubled} | {recovered} | {row.seen} |")
    return "\n".join(lines)
