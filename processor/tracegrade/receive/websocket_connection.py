"""One WebSocket: uvicorn's, counted among the connections of its server, and closed when its client reads no more."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ClassVar

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

MAX_MESSAGE_BYTES = 4096  # clients have little to say
PING_INTERVAL_S = 20.0
PING_TIMEOUT_S = 20.0

_logger = logging.getLogger("uvicorn.error.websocket")
_logger.setLevel(logging.WARNING)  # below, there is a line for each that is opened


def settings() -> dict[str, Any]:
    """WebSocket settings of uvicorn's configuration."""
    return {
        "ws": BoundedWebSocket,
        "ws_max_size": MAX_MESSAGE_BYTES,
        "ws_ping_interval": PING_INTERVAL_S,
        "ws_ping_timeout": PING_TIMEOUT_S,
        "ws_per_message_deflate": False,
    }


class BoundedWebSocket(WSProtocol):
    """Uvicorn's protocol with bounds.

    By itself it waits for ever for a client that leaves unread what was written.
    """

    write_timeout_s: ClassVar[float] = 30.0

    def __init__(self, *args: Any, **uvicorn: Any) -> None:
        super().__init__(*args, **uvicorn)
        self.logger = _logger
        self.lost: Callable[[], None] = lambda: None
        """Called when the connection is lost."""
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        self.resume_writing()
        self.lost()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def keepalive_timeout(self) -> None:
        """It does not answer: what was written last is not waited for."""
        super().keepalive_timeout()
        self.transport.abort()
