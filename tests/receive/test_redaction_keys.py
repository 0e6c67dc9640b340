"""What a data folder remembers of redaction."""

from pathlib import Path

from tracegrade.receive.redaction_keys import id_key, note_key

DAY_S = 86400.0


def test_the_key_of_ids_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    key = id_key(tmp_path / "data")
    assert len(key) == 64
    assert id_key(tmp_path / "data") == key
    assert (tmp_path / "data" / "redaction.key").stat().st_mode & 0o777 == 0o600


def test_a_changed_key_is_named_as_long_as_old_hashes_may_be_stored(tmp_path: Path) -> None:
    assert note_key(tmp_path, "aaaaaa", DAY_S) is None
    assert note_key(tmp_path, "aaaaaa", DAY_S) is None
    said = note_key(tmp_path, "bbbbbb", DAY_S)
    assert said is not None
    assert "from aaaaaa to bbbbbb: hashes made before are not equal" in said
    assert note_key(tmp_path, "bbbbbb", DAY_S) == said
    assert note_key(tmp_path, "bbbbbb", 0.0) is None
