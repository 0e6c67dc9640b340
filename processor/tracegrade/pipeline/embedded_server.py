"""uvicorn inside a role: on sockets that the role made, and signals are the role's business."""

from collections.abc import Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

import uvicorn
from starlette.types import ASGIApp


class EmbeddedServer(uvicorn.Server):
    """Serves `app`; setting ``should_exit`` ends it."""

    def __init__(self, app: ASGIApp, tls: SSLContext | None = None, **options: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                access_log=False,
                log_level="warning",
                server_header=False,
                proxy_headers=False,
                **options,
            )
        )
        self.config.load()
        self.config.ssl = tls  # uvicorn's own settings know no context that is renewed

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signal handlers alone."""
        yield
