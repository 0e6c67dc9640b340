"""Requests for deletion: receive and the judge carry them out, within seconds."""

from dataclasses import replace
from typing import Annotated

from fastapi import Query
from pydantic import Field

from tracegrade.deletion.request import Choice, Deleted, Deletion, Deletions
from tracegrade.web.api.documents import Document, ExactJson
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import ApiSources, NoParameters, Parameters, PathName, Time, TraceId
from tracegrade.web.problem import Refusal, not_found
from tracegrade.web.sources import Sources

router = Operations()


class BeforeQuery(Parameters):
    """Up to when."""

    before: Time = Field(description="Traces first received before this time")


class DeletionDocument(Document):
    """A deletion, and how far it is: requested, resolved, erased (from the journal), unstored (from all but Parquet
    files), done. Kept for a day when done.
    """

    id: str
    state: str
    trace_count: int = Field(description="How many traces are meant, as far as that is known")
    requested_ns: int
    done_ns: int | None
    deleted: Deleted


class DeletionList(Document):
    """The oldest first."""

    items: list[DeletionDocument]


def _asked(sources: Sources, choice: Choice, *trace_ids: str) -> ExactJson:
    """Ask for a deletion of what the caller may see."""
    folder, choice = sources.config.data_path, replace(choice, tenant=sources.tenant)
    if not (folder / "journal").is_dir():
        raise Refusal(
            409,
            "not-possible",
            "No journal here",
            f"{folder} holds no journal: nothing was received here; ask the instance that received it",
        )
    deletion = Deletions(folder).request(choice, frozenset(map(bytes.fromhex, trace_ids)))
    return ExactJson(deletion.to_json(), 202)


@router.operation(
    "DELETE /traces/{trace_id}", "Delete what is kept of a trace", DeletionDocument, 404, 409, right="admin", status=202
)
def delete_trace(sources: ApiSources, trace_id: TraceId, query: NoParameters) -> ExactJson:
    """Requests the deletion of one trace: in the tenant of the token, or in every tenant."""
    return _asked(sources, Choice(), trace_id)


@router.operation(
    "DELETE /traces",
    "Delete what is kept of all traces first received before a time",
    DeletionDocument,
    409,
    right="admin",
    status=202,
)
def delete_traces_before(sources: ApiSources, query: Annotated[BeforeQuery, Query()]) -> ExactJson:
    """Requests the deletion of all traces first received before a time."""
    return _asked(sources, Choice(before_ns=query.before))


@router.operation(
    "DELETE /sessions/{session_id:path}",
    "Delete what is kept of all traces of a session",
    DeletionDocument,
    404,
    409,
    right="admin",
    status=202,
)
def delete_session(sources: ApiSources, session_id: PathName, query: NoParameters) -> ExactJson:
    """Requests the deletion of all traces of a session."""
    return _asked(sources, Choice(session=session_id))


@router.operation(
    "DELETE /users/{user_id:path}",
    "Delete what is kept of all traces of a user",
    DeletionDocument,
    404,
    409,
    right="admin",
    status=202,
)
def delete_user(sources: ApiSources, user_id: PathName, query: NoParameters) -> ExactJson:
    """Requests the deletion of all traces of a user."""
    return _asked(sources, Choice(user=user_id))


@router.operation("GET /deletions", "Deletions that wait, or were done within a day", DeletionList)
def list_deletions(sources: ApiSources, query: NoParameters) -> ExactJson:
    """Deletions that are not done yet, and those done within a day."""
    found = Deletions(sources.config.data_path).waiting("requested", "resolved", "erased", "done")
    return ExactJson({"items": [deletion.to_json() for deletion in found if _is_shown(sources, deletion)]})


def _is_shown(sources: Sources, deletion: Deletion) -> bool:
    return sources.tenant is None or sources.tenant == deletion.choice.tenant


@router.operation("GET /deletions/{deletion_id}", "How far a deletion is", DeletionDocument, 404)
def show_deletion(sources: ApiSources, deletion_id: PathName, query: NoParameters) -> ExactJson:
    """One deletion, and its state."""
    found = Deletions(sources.config.data_path).find(deletion_id)
    if found is None or not _is_shown(sources, found):
        raise not_found(f"deletion {deletion_id[:200]!r}")
    return ExactJson(found.to_json())
