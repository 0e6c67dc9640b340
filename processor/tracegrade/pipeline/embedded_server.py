"""uvicorn inside a role: on sockets that the role made, and signals are the role's business."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp


class EmbeddedServer(uvicorn.Server):
    """Serves `app`; setting ``should_exit`` ends it."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
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

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signal handlers alone."""
        yield
