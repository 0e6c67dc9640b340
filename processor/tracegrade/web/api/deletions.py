"""Requests for deletion: receive and the judge carry them out, within seconds."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from tracegrade.deletion.request import Choice, Deleted, Deletions
from tracegrade.web.api.operation import Document, Operation, PathName, Query, Refusal, Time, TraceId, not_found
from tracegrade.web.sources import Sources


class BeforeQuery(Query):
    """Up to when."""

    before: Time = Field(description="Traces first received before this time")


class DeletionDocument(Document):
    """A deletion, and how far it is: requested, resolved, erased (from the journal), done. Kept for a day when done."""

    id: str
    state: str
    trace_count: int = Field(description="How many traces are meant, as far as that is known")
    requested_ns: int
    done_ns: int | None
    deleted: Deleted


class DeletionList(Document):
    """The oldest first."""

    items: list[DeletionDocument]


def _asked(sources: Sources, choice: Choice, *trace_ids: str) -> dict[str, Any]:
    folder = sources.config.data_path
    if not (folder / "journal").is_dir():
        raise Refusal(
            409,
            "not-possible",
            "No journal here",
            f"{folder} holds no journal: nothing was received here; ask the instance that received it",
        )
    return Deletions(folder).request(choice, frozenset(map(bytes.fromhex, trace_ids))).to_json()


def delete_trace(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """Ask for one trace, in every tenant."""
    return _asked(sources, Choice(), path["trace_id"])


def delete_before(sources: Sources, query: BeforeQuery, path: Mapping[str, str]) -> dict[str, Any]:
    """Ask for all traces first received before a time."""
    return _asked(sources, Choice(before_ns=query.before))


def delete_session(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """Ask for all traces of a session."""
    return _asked(sources, Choice(session=path["session_id"]))


def delete_user(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """Ask for all traces of a user."""
    return _asked(sources, Choice(user=path["user_id"]))


def list_deletions(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """Those that wait, and those done within a day."""
    found = Deletions(sources.config.data_path).waiting("requested", "resolved", "erased", "done")
    return {"items": [deletion.to_json() for deletion in found]}


def show_deletion(sources: Sources, query: object, path: Mapping[str, str]) -> dict[str, Any]:
    """One of them."""
    found = Deletions(sources.config.data_path).find(path["deletion_id"])
    if found is None:
        raise not_found(f"deletion {path['deletion_id'][:200]!r}")
    return found.to_json()


_ASKED: dict[str, Any] = {"response": DeletionDocument, "status": 202, "needs_store": False}

OPERATIONS = (
    Operation(
        "DELETE",
        "/traces/{trace_id}",
        "deleteTrace",
        "Delete what is kept of a trace",
        delete_trace,
        path_types={"trace_id": TraceId},
        **_ASKED,
    ),
    Operation(
        "DELETE",
        "/traces",
        "deleteTracesBefore",
        "Delete what is kept of all traces first received before a time",
        delete_before,
        query=BeforeQuery,
        **_ASKED,
    ),
    Operation(
        "DELETE",
        "/sessions/{session_id}",
        "deleteSession",
        "Delete what is kept of all traces of a session",
        delete_session,
        path_types={"session_id": PathName},
        **_ASKED,
    ),
    Operation(
        "DELETE",
        "/users/{user_id}",
        "deleteUser",
        "Delete what is kept of all traces of a user",
        delete_user,
        path_types={"user_id": PathName},
        **_ASKED,
    ),
    Operation(
        "GET",
        "/deletions",
        "listDeletions",
        "Deletions that wait, or were done within a day",
        list_deletions,
        DeletionList,
        needs_store=False,
    ),
    Operation(
        "GET",
        "/deletions/{deletion_id}",
        "showDeletion",
        "How far a deletion is",
        show_deletion,
        DeletionDocument,
        path_types={"deletion_id": PathName},
        needs_store=False,
    ),
)
