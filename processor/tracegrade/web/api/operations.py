"""Operations of the API, each declared by its address, its answer, how it refuses, and the right that it needs."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import APIRouter

from tracegrade.access.rights import Right
from tracegrade.web.api.openapi import problems
from tracegrade.web.api.parameters import needs

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Operations(APIRouter):
    """The operations of one file; all of them need the right ``read``."""

    def __init__(self, *refusals: int) -> None:
        """`refusals` are the statuses of problems with which any of them may answer."""
        super().__init__(responses=problems(*refusals), dependencies=[needs("read")])

    def operation(
        self,
        asked: str,
        summary: str,
        answer: Any,
        *refusals: int,
        right: Right = "read",
        status: int = 200,
        answers: Mapping[int | str, dict[str, Any]] | None = None,
        **more: Any,
    ) -> Callable[[Handler], Handler]:
        """Declare the operation that a function is.

        Args:
            asked: its method and address, such as ``GET /jobs``.
            summary: what it does, for the document.
            answer: the model of its answer; None for one that is no JSON.
            refusals: the statuses of its own problems.
            right: what a caller needs.
            status: that of its answer.
            answers: other answers, by status, as OpenAPI has them.
            more: what else FastAPI takes of an operation.
        """
        method, address = asked.split()
        return self.api_route(
            address,
            methods=[method],
            summary=summary,
            response_model=answer,
            status_code=status,
            responses={**(answers or {}), **problems(*refusals)},
            dependencies=[needs(right)] if right != "read" else None,
            **more,
        )
