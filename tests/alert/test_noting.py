"""What people do about incidents: by whom, redacted, bounded, of one tenant, and deleted with the incident."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from build import store_with
from build.judged_traces import START_NS
from build.loop_stage import Channel, Stage, rules
from build.stored_alerts import ALERT, store_incident
from tracegrade.alert.noting import LONGEST_TEXT, MOST_NOTES, Author, acknowledge, comment, own
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.receive.typed_text import TypedText
from tracegrade.redact.settings import RedactionSettings
from tracegrade.store.delete import cut_log, delete_older
from tracegrade.store.incidents import Incident, Note, add_note, open_incidents, stored_incident
from tracegrade.store.open import open_store, reading
from tracegrade.store.salvage import salvage

HOUR_NS = 3600 * 10**9
ANN = Author("ann", None, lambda text, tenant: text, lambda text, tenant: text)
BOB = Author("bob", None, lambda text, tenant: text, lambda text, tenant: text)


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def stored(engine: Engine, incident: Incident) -> Incident:
    with reading(engine) as connection:
        found = stored_incident(connection, incident.id)
    assert found is not None
    return found


@pytest.fixture
def firing(engine: Engine) -> Incident:
    with engine.begin() as connection:
        return store_incident(connection, ALERT)


@pytest.fixture
def over(engine: Engine) -> Incident:
    ends_ns = ALERT.starts_ns + HOUR_NS
    with engine.begin() as connection:
        return store_incident(connection, replace(ALERT, fingerprint="cd" * 16, state="resolved", ends_ns=ends_ns))


def test_it_is_noted_who_did_what_and_when_in_order(engine: Engine, firing: Incident) -> None:
    url = url_of(engine)
    acknowledge(url, firing.id, ANN, 1)
    own(url, firing.id, ANN, 2)
    comment(url, firing.id, BOB, "  <b>a lock</b>\r\nis held ", 3)
    own(url, firing.id, BOB, 4)
    found = stored(engine, firing)
    assert [(note.time_ns, note.author, note.kind, note.level, note.text) for note in found.notes] == [
        (1, "ann", "acknowledged", "high", ""),
        (2, "ann", "owned", "high", ""),
        (3, "bob", "commented", "high", "<b>a lock</b>\nis held"),
        (4, "bob", "owned", "high", ""),
    ]
    assert found.acknowledged == found.notes[0]
    assert found.owner == "bob"
    assert found.to_json()["owner"] == "bob"


def test_doing_the_same_again_changes_nothing(engine: Engine, firing: Incident) -> None:
    for _ in range(2):
        acknowledge(url_of(engine), firing.id, ANN, 1)
        own(url_of(engine), firing.id, ANN, 2)
    assert len(stored(engine, firing).notes) == 2


def test_of_what_is_over_people_may_talk_and_nobody_acknowledges_it(engine: Engine, over: Incident) -> None:
    with pytest.raises(NotPossible, match="is over: nobody is notified of it again"):
        acknowledge(url_of(engine), over.id, ANN, 1)
    comment(url_of(engine), over.id, ANN, "it was the lock", 1)
    assert [note.text for note in stored(engine, over).notes] == ["it was the lock"]


def test_there_is_no_such_incident(engine: Engine) -> None:
    for act in (acknowledge, own):
        with pytest.raises(NotFound, match="there is no incident '0000000000', or none any more"):
            act(url_of(engine), "0000000000", ANN, 1)
    with pytest.raises(NotFound, match="there is no incident"):
        comment(url_of(engine), "0000000000", ANN, "x", 1)


def test_a_comment_has_at_least_one_character_and_at_most_2000(engine: Engine, firing: Incident) -> None:
    comment(url_of(engine), firing.id, ANN, "x" * LONGEST_TEXT, 1)
    with pytest.raises(WrongValue, match="comment: expected at most 2,000 characters, found 2,001"):
        comment(url_of(engine), firing.id, ANN, "x" * (LONGEST_TEXT + 1), 1)
    with pytest.raises(WrongValue, match="comment: expected some text, found none"):
        comment(url_of(engine), firing.id, ANN, " \n ", 1)
    assert len(stored(engine, firing).notes) == 1


def test_an_incident_takes_so_many_notes(engine: Engine, firing: Incident) -> None:
    with engine.begin() as connection:
        for number in range(MOST_NOTES):
            add_note(connection, firing, Note(f"{number:012x}", number, "ann", "commented", "high", "x"))
    for act in (acknowledge, own):
        with pytest.raises(NotPossible, match="has 500 notes, and takes no more"):
            act(url_of(engine), firing.id, BOB, 1)
    with pytest.raises(NotPossible, match="has 500 notes"):
        comment(url_of(engine), firing.id, BOB, "x", 1)
    assert len(stored(engine, firing).notes) == MOST_NOTES


def test_text_is_redacted_before_it_is_written(tmp_path: Path) -> None:
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        firing = store_incident(connection, ALERT)
    texts = TypedText(RedactionSettings(), tmp_path)
    author = Author("ann", None, texts.redacted, texts.redacted_name)
    comment(url_of(engine), firing.id, author, "ask ann.smith@shop.example, or me", 1)
    assert stored(engine, firing).notes[0].text == "ask [redacted:email], or me"
    engine.dispose()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"[redacted:email]" in written
    assert b"ann.smith" not in written


def test_places_and_hashes_of_the_settings_hold_for_what_is_typed(tmp_path: Path) -> None:
    place = {"attribute": "tracegrade.comment", "action": "mask"}
    masked = TypedText(RedactionSettings.model_validate({"places": [place]}), tmp_path)
    assert masked.redacted("anything", "default") == "[redacted]"
    by_key = RedactionSettings.model_validate({"action": "hash", "key": "k" * 32})
    first, again, others = (
        TypedText(by_key, tmp_path).redacted("ann@shop.example", tenant) for tenant in ("a", "a", "b")
    )
    assert first == again != others
    assert first.startswith("[hash:")
    assert TypedText(None, tmp_path).redacted("ann@shop.example", "default") == "ann@shop.example"


def test_notes_go_with_their_incident_to_the_byte_and_others_stay(tmp_path: Path) -> None:
    url = store_with(tmp_path)
    engine = open_store(url)
    ends_ns = ALERT.starts_ns + HOUR_NS
    with engine.begin() as connection:
        firing = store_incident(connection, ALERT)
        ended = replace(ALERT, fingerprint="cd" * 16, state="resolved", ends_ns=ends_ns)
        over = store_incident(connection, ended)
    comment(url, firing.id, ANN, "a-word-of-the-present", 1)
    for number in range(20):  # so many that pages of the file are free afterwards
        comment(url, over.id, ANN, "a-word-of-the-past " * 100, number)
    while delete_older(engine, ends_ns + 1):
        pass
    cut_log(engine)
    assert [note.text for note in stored(engine, firing).notes] == ["a-word-of-the-present"]
    engine.dispose()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"a-word-of-the-present" in written
    assert b"a-word-of-the-past" not in written


def test_notes_of_what_is_deleted_go_in_every_database(engine: Engine, firing: Incident, over: Incident) -> None:
    for incident in (firing, over):
        comment(url_of(engine), incident.id, ANN, "x", 1)
    delete_older(engine, ALERT.starts_ns + 2 * HOUR_NS)
    with engine.connect() as connection:
        left = connection.exec_driver_sql("SELECT incident FROM incident_notes").scalars().all()
    assert left == [firing.id]


def test_notes_are_brought_over_from_a_damaged_store(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    engine = open_store(store_with(old))
    with engine.begin() as connection:
        firing = store_incident(connection, ALERT)
    comment(url_of(engine), firing.id, ANN, "kept", 1)
    engine.dispose()
    other = open_store(store_with(new))
    salvage(old / "tracegrade.db", other, lambda done: None)
    assert [note.text for note in stored(other, firing).notes] == ["kept"]
    other.dispose()


def test_one_tenant_sees_its_own_notes_alone(engine: Engine, firing: Incident) -> None:
    comment(url_of(engine), firing.id, ANN, "x", 1)
    for tenant, seen in (("default", 1), ("globex", 0)):
        one = open_store(url_of(engine), read_only=True, tenant=tenant)
        with reading(one) as connection:
            found = connection.exec_driver_sql("SELECT count(*) FROM incident_notes").scalar_one()
            assert (found, len(open_incidents(connection))) == (seen, seen)
        one.dispose()


def fires(stage: Stage, minute: float) -> list[str]:
    return [state for _, _, state in stage.step(minute)]


def acknowledged(stage: Stage) -> None:
    with reading(stage.engine) as connection:
        (incident,) = open_incidents(connection)
    acknowledge(url_of(stage.engine), incident.id, ANN, START_NS)


def test_what_is_acknowledged_is_not_repeated_and_its_end_is_told(engine: Engine, plain: None) -> None:
    stage = Stage(engine, Channel(), repeat="10m")
    stage.receive(0, "fail", "fail")
    assert fires(stage, 1) == ["firing"]
    assert fires(stage, 12) == ["firing"]
    acknowledged(stage)
    assert fires(stage, 24) == []
    stage.receive(25, *["pass"] * 30)
    assert fires(stage, 26) == ["resolved"]
    stage.receive(60, "fail", "fail")
    assert fires(stage, 61) == ["firing"], "it fires anew, as another incident"
    assert fires(stage, 72) == ["firing"]


def test_what_rises_after_it_was_acknowledged_is_told_and_repeated_again(engine: Engine, plain: None) -> None:
    stage = Stage(engine, Channel(), repeat="10m")
    stage.rule_set = rules(level="medium")
    stage.receive(0, "fail", "fail")
    assert fires(stage, 1) == ["firing"]
    acknowledged(stage)
    assert fires(stage, 12) == []
    stage.rule_set = rules(level="critical")
    stage.receive(12, "fail", "fail")
    assert fires(stage, 13) == ["firing"]
    assert fires(stage, 24) == ["firing"]


def test_alertmanager_is_still_sent_what_is_acknowledged(engine: Engine, plain: None) -> None:
    channel = Channel("ops")
    channel.resend_s = 60.0
    stage = Stage(engine, channel)
    stage.receive(0, "fail", "fail")
    assert fires(stage, 1) == ["firing"]
    acknowledged(stage)
    assert fires(stage, 2.1) == ["firing"]


def test_all_that_was_sent_is_listed_with_what_was_refused(engine: Engine, plain: None) -> None:
    stage = Stage(engine, Channel(), repeat="10m")
    stage.receive(0, "fail", "fail")
    stage.channel.away = True
    fires(stage, 1)
    fires(stage, 2)
    stage.channel.away = False
    fires(stage, 5)
    fires(stage, 16)
    stage.receive(17, *["pass"] * 30)
    fires(stage, 18)
    with reading(engine) as connection:
        found = connection.exec_driver_sql("SELECT id FROM incidents").scalar_one()
        incident = stored_incident(connection, found)
    assert incident is not None
    sent = [(one.state, one.level, one.times, one.error) for one in incident.notified["pager"].sent]
    assert sent == [("firing", "medium", 2, "answered 503"), ("firing", "medium", 2, ""), ("resolved", "medium", 1, "")]
