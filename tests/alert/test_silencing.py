"""Silences that people make: what they match now, their bounds, their tenant, and when they go."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from build import each, store_with
from build.judged_traces import judged
from build.stored_alerts import ALERT, store_incident
from tracegrade.alert import silencing
from tracegrade.alert.noting import Author
from tracegrade.alert.silencing import Matched, checked_labels, end_silence, labels_of, matched, silence, silence_s
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.receive.typed_text import TypedText
from tracegrade.redact.settings import RedactionSettings
from tracegrade.store.alerts import stored_silences
from tracegrade.store.delete import delete_older
from tracegrade.store.incidents import Incident, stored_incident
from tracegrade.store.open import open_store, reading
from tracegrade.store.write import StoreWriter

ANN = Author("ann", None, lambda text, tenant: text, lambda text, tenant: text)
OF_GLOBEX = replace(ANN, tenant="globex")
NOW_NS = ALERT.starts_ns + 10**9
OTHER = replace(ALERT, fingerprint="cd" * 16, rule_id="refund-twice")
OF_OTHER_AGENT = replace(ALERT, fingerprint="ef" * 16, agent="sales [eu]")


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


@pytest.fixture
def incident(engine: Engine) -> Incident:
    """An incident with two alerts that fire, beside another one."""
    StoreWriter(engine).write([judged(1)])
    with engine.begin() as connection:
        store_incident(connection, OTHER)
        return store_incident(connection, ALERT, OF_OTHER_AGENT)


def test_it_begins_with_what_all_alerts_of_the_incident_have_in_common(incident: Incident) -> None:
    common = {"rule": "checkout-order", "service": "shop", "release": "1.1", "tenant": "default"}
    assert labels_of(incident) == common
    alone = replace(incident, members=incident.members[1:])
    assert labels_of(alone) == common | {"agent": "sales [[]eu]"}


@each(
    ("labels", "expected", "said"),
    [
        ({"rule": "checkout-order"}, Matched(2, 0, 0), "Matches 2 firing of this incident, 0 others."),
        ({"service": "shop"}, Matched(3, 1, 0), "Matches 2 firing of this incident, 1 other."),
        (
            {"agent": "sales*"},
            Matched(1, 0, 1),
            "Matches 1 firing of this incident, 0 others. It misses 1 alert of this incident, so that people are "
            "still notified of it.",
        ),
        (
            {"kind": "drop"},
            Matched(0, 0, 2),
            "No alert that fires now matches; alerts that begin until then are silenced.",
        ),
    ],
)
def test_what_it_matches_now_is_told(
    engine: Engine, incident: Incident, labels: dict[str, str], expected: Matched, said: str
) -> None:
    with reading(engine) as connection:
        found = matched(connection, labels, incident)
    assert (found, found.text) == (expected, said)


def test_what_matches_nothing_is_warned_of(engine: Engine, incident: Incident) -> None:
    with reading(engine) as connection:
        found = matched(connection, {"service": "shoop"})
    assert found.firing == 0
    assert found.text == "Warning: it matches nothing: no stored result has the service 'shoop'; did you mean 'shop'?"


def test_a_silence_says_who_made_it_and_its_incident_too(engine: Engine, incident: Incident) -> None:
    made = silence(url_of(engine), labels_of(incident), 7200.0, " we know ", ANN, NOW_NS, incident)
    with reading(engine) as connection:
        assert stored_silences(connection, NOW_NS) == [made]
        found = stored_incident(connection, incident.id)
    assert (made.author, made.comment, made.ends_ns - made.starts_ns) == ("ann", "we know", 7200 * 10**9)
    assert found is not None
    (note,) = found.notes
    assert (note.author, note.kind) == ("ann", "silenced")
    assert note.text.startswith("rule=checkout-order service=shop release=1.1 tenant=default until 2026-01-01 02:00:01")


def test_a_silence_is_ended_once_and_by_who_sees_it(engine: Engine) -> None:
    made = silence(url_of(engine), {"service": "shop"}, 7200.0, "", ANN, NOW_NS)
    with pytest.raises(NotFound, match="there is no silence"):
        end_silence(url_of(engine), made.id, OF_GLOBEX, NOW_NS + 1)
    assert end_silence(url_of(engine), made.id, ANN, NOW_NS + 1).ends_ns == NOW_NS + 1
    with pytest.raises(NotFound, match=f"there is no silence '{made.id}', or none any more"):
        end_silence(url_of(engine), made.id, ANN, NOW_NS + 1)
    own = silence(url_of(engine), checked_labels({"service": "shop"}, "globex"), 7200.0, "", OF_GLOBEX, NOW_NS)
    assert own.labels == {"service": "shop", "tenant": "globex"}
    assert end_silence(url_of(engine), own.id, OF_GLOBEX, NOW_NS + 1).id == own.id


@each(
    ("labels", "tenant", "said"),
    [
        ({}, None, "labels: expected at least one of rule, level"),
        ({"team": "x"}, None, "labels: no label 'team'"),
        ({"rule": "x" * 1001}, None, "labels: rule: expected at most 1,000 characters, found 1,001"),
        ({"rule": "a\0b"}, None, "labels: rule: expected text without NUL"),
        ({"tenant": "default"}, "globex", "labels: expected the tenant 'globex', or none, found 'default'"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels: dict[str, str], tenant: str | None, said: str) -> None:
    with pytest.raises(WrongValue, match=said):
        checked_labels(labels, tenant)


@each("written", ["soon", "0s", "367d", "1e9d", ""])
def test_a_silence_lasts_for_some_time_and_at_most_a_year(written: str) -> None:
    with pytest.raises(WrongValue, match="duration: expected"):
        silence_s(written)
    assert silence_s("366d") == 366 * 86_400


def test_so_many_silences_are_in_force(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silencing, "MOST_SILENCES", 2)
    for number in range(2):
        silence(url_of(engine), {"rule": f"r{number}"}, 60.0, "", ANN, NOW_NS)
    with pytest.raises(NotPossible, match="2 silences are in force, and no more can be: end some"):
        silence(url_of(engine), {"rule": "r"}, 60.0, "", ANN, NOW_NS)
    silence(url_of(engine), {"rule": "r"}, 60.0, "", ANN, NOW_NS + 61 * 10**9)


def test_silences_go_when_they_ended_longer_ago_than_the_store_keeps(engine: Engine) -> None:
    for lasting_s in (60.0, 7200.0):
        silence(url_of(engine), {"rule": "r"}, lasting_s, "", ANN, NOW_NS)
    delete_older(engine, NOW_NS + 3600 * 10**9)
    with reading(engine) as connection:
        assert [item.ends_ns for item in stored_silences(connection, 0)] == [NOW_NS + 7200 * 10**9]


def _author(settings: RedactionSettings, path: Path) -> Author:
    texts = TypedText(settings, path)
    return replace(ANN, redacted=texts.redacted, redacted_name=texts.redacted_name)


def test_names_are_silenced_also_where_only_listed_values_are_kept(tmp_path: Path) -> None:
    author = _author(RedactionSettings(default="allow_listed"), tmp_path)
    made = silence(store_with(tmp_path), {"rule": "r", "service": "shop-*"}, 60.0, "planned", author, NOW_NS)
    assert (made.labels, made.comment) == ({"rule": "r", "service": "shop-*"}, "[redacted]")
    with pytest.raises(WrongValue, match="found what redaction takes out"):
        silence(store_with(tmp_path), {"agent": "ann@shop.example"}, 60.0, "", author, NOW_NS)


def test_the_reason_is_redacted_and_a_label_that_would_be_is_refused(tmp_path: Path) -> None:
    url = store_with(tmp_path)
    author = _author(RedactionSettings(), tmp_path)
    made = silence(url, {"rule": "r"}, 60.0, "ask ann@shop.example", author, NOW_NS)
    assert made.comment == "ask [redacted:email]"
    with pytest.raises(
        WrongValue, match="labels: agent: expected a name as it is stored, found what redaction takes out"
    ):
        silence(url, {"agent": "ann@shop.example"}, 60.0, "", author, NOW_NS)
    with pytest.raises(WrongValue, match="comment: expected at most 2,000 characters, found 2,001"):
        silence(url, {"rule": "r"}, 60.0, "x" * 2001, author, NOW_NS)
    engine = open_store(url, read_only=True)
    with reading(engine) as connection:
        assert stored_silences(connection, NOW_NS) == [made]
    engine.dispose()
