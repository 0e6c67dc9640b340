"""Whose a trace is can be asked by the id as it was sent, also where redaction put a hash in its place."""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from build.otlp import payload, spans_of
from build.served_folder import ServedFolder, id_of, secret_trace
from tracegrade.deletion.request import Choice, Deletion, Deletions
from tracegrade.model.signal import Signal
from tracegrade.receive.redacted_ids import RedactedIds
from tracegrade.receive.redaction import RequestRedactor
from tracegrade.receive.redaction_keys import id_key
from tracegrade.redact.settings import RedactionSettings
from tracegrade.redact.stand_in import Keys
from tracegrade.serve.offline import run_deletion_offline

HASHES = {"action": "hash", "key": "k" * 32}
USERS = {
    "an address": (HASHES, "ann@corp-1.io"),
    "an address in an id": (HASHES, "mail:ann@corp-1.io"),
    "words at a place": ({"key": "k" * 32, "places": [{"attribute": "user.*", "action": "hash"}]}, "ann of sales"),
    "kept": (HASHES, "ann"),
}
SESSIONS: dict[str, dict[str, Any]] = {
    "masked by its place": {"places": [{"attribute": "gen_ai.conversation.id", "action": "mask"}]},
    "hashed by its place": {
        "key": "k" * 32,
        "places": [{"attribute": "gen_ai.conversation.id", "action": "hash"}],
    },
}


class Redacting(ServedFolder):
    """A data folder whose receiver redacts by these settings."""

    def __init__(self, folder: Path, redaction: dict[str, Any]) -> None:
        super().__init__(folder)
        settings = RedactionSettings.model_validate(redaction)
        self.config = self.config.model_copy(update={"redaction": settings})
        self.redactor = RequestRedactor(settings, id_key(folder))


def take(
    kept: Redacting, trace: int, *, session: str = "", user: str = "", tenant: str = "default", **how: Any
) -> None:
    """Receive a trace as redaction leaves it."""
    sent = payload(spans_of(secret_trace(trace, f"of-{trace}", session, user, noise_bytes=0)))
    left = ExportTraceServiceRequest.FromString(kept.redactor.redacted(Signal.TRACES, sent, tenant).payload)
    spans = [span for resource in left.resource_spans for scope in resource.scope_spans for span in scope.spans]
    kept.receive(spans, tenant=tenant, **how)


def carry_out(kept: ServedFolder, choice: Choice) -> Deletion:
    return run_deletion_offline(kept.config, Deletions(kept.folder).request(choice, frozenset()))


@each(("redaction", "user"), USERS.values(), ids=USERS)
def test_a_user_is_found_by_the_id_that_was_sent(tmp_path: Path, redaction: dict[str, Any], user: str) -> None:
    kept = Redacting(tmp_path, redaction)
    take(kept, 1, user=user)
    take(kept, 2, user="bob@corp-1.io")
    take(kept, 3, user=user, judge=False)
    done = carry_out(kept, Choice(user=user))
    assert (done.trace_count, done.deleted.traces, done.deleted.spans) == (2, 1, 6)
    assert kept.files_with(id_of(2))


@pytest.mark.parametrize("redaction", SESSIONS.values(), ids=SESSIONS)
def test_a_session_is_found_by_the_id_that_was_sent(tmp_path: Path, redaction: dict[str, Any]) -> None:
    kept = Redacting(tmp_path, redaction)
    take(kept, 1, session="chat-1")
    take(kept, 2, session="chat-2")
    take(kept, 3, session="chat-1", judge=False)
    assert not kept.files_with(b"chat-1")
    done = carry_out(kept, Choice(session="chat-1"))
    assert (done.trace_count, done.deleted.traces, done.deleted.spans) == (2, 1, 6)


def test_each_tenant_has_hashes_of_its_own(tmp_path: Path) -> None:
    kept = Redacting(tmp_path, HASHES)
    for trace, tenant in ((1, "acme"), (2, "globex")):
        take(kept, trace, user="ann@corp-1.io", tenant=tenant)
    assert carry_out(kept, Choice(user="ann@corp-1.io", tenant="acme")).trace_count == 1
    assert carry_out(kept, Choice(user="ann@corp-1.io")).trace_count == 1


def test_redaction_that_was_taken_out_of_the_settings_has_left_the_key_of_ids(tmp_path: Path) -> None:
    kept = Redacting(tmp_path, SESSIONS["masked by its place"])
    take(kept, 1, session="chat-1")
    kept.config = kept.config.model_copy(update={"redaction": None})
    assert carry_out(kept, Choice(session="chat-1")).trace_count == 1


def test_a_mask_is_nobodys(tmp_path: Path) -> None:
    kept = Redacting(tmp_path, {"detectors": "all"})
    take(kept, 1, user="ann@corp-1.io")
    assert carry_out(kept, Choice(user="ann@corp-1.io")).found_nothing
    assert carry_out(kept, Choice(user="bob@corp-1.io")).found_nothing
    ids = RedactedIds(kept.config.redaction, kept.folder)
    assert ids.masks_user("ann@corp-1.io", "default")
    assert not ids.masks_user("ann", "default")


def test_a_place_of_one_service_is_thought_of(tmp_path: Path) -> None:
    place = {"attribute": "user.id", "action": "hash", "service": ["shop-*"]}
    ids = RedactedIds(RedactionSettings.model_validate({"key": "k" * 32, "places": [place]}), tmp_path)
    assert ids.of_user("ann", "acme") == {"ann", Keys("k" * 32).of("acme").hash_of("ann")}


def test_an_id_that_looks_like_a_mask_is_still_found(tmp_path: Path) -> None:
    ids = RedactedIds(RedactionSettings.model_validate({"detectors": "all"}), tmp_path)
    assert "[redacted:email]" in ids.of_user("[redacted:email]", "default")
    assert ids.of_user("ann@corp-1.io", "default") == {"ann@corp-1.io"}
