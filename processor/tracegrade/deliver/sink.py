"""The one seam of delivery: a sink says whether it took a batch, and if not, whether trying again makes sense."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tracegrade.deliver.record import JudgedTrace


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a batch: done; retry (later, not before ``retry_after_s``); failed (never will be).

    ``failed_records`` counts the records of the batch given up while the others were done.
    """

    kind: Literal["done", "retry", "failed"]
    reason: str = ""
    retry_after_s: float | None = None
    failed_records: int = 0


DONE = Delivery("done")


class Sink(Protocol):
    """One end of the path. Retrying, waiting and positions live around it, in `route`, never in it."""

    name: str

    async def deliver(self, batch: Sequence[JudgedTrace]) -> Delivery:
        """Deliver every record of the batch, in order. A record may come again: writing twice must store once."""
        ...

    async def close(self) -> None:
        """Let go of connections; no delivery is under way."""
        ...
