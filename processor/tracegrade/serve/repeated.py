"""Work that is done again and again until a process stops."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tracegrade.deliver.consumer import wait
from tracegrade.model.errors import TraceGradeError

logger = logging.getLogger(__name__)


async def repeat(seconds: float, action: Callable[[], Any], stop: asyncio.Event) -> None:
    """Await `action()` every `seconds` until `stop` is set; an error of a disk or service is logged once and passes."""
    said = ""
    while not stop.is_set():
        if not await wait(stop, seconds):
            try:
                await action()
                said = ""
            except (OSError, TraceGradeError) as error:  # no file descriptor left, or a failing disk: receiving goes on
                if said != (said := str(error)):
                    logger.warning("%s; trying again every %.0f s", error, seconds)
