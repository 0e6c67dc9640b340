"""Tokens that were made: their file, and whom they let in."""

import re
import stat
import threading
from pathlib import Path

import pytest

from build import each
from tracegrade.access.rights import EVERYTHING, RIGHTS, Role, rights_of
from tracegrade.access.tokens import MadeTokens, digest_of, new_token, revoke_token, rotate_token, stored_tokens
from tracegrade.model.errors import TraceGradeError
from tracegrade.sensitive.detectors.tokens import _has_crc32

NOW = 1_800_000_000_000_000_000
S = 10**9


class Clock:
    def __init__(self) -> None:
        self.ns = NOW

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is looked at for every request, not once a second."""
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)


@each(
    ("roles", "gives"),
    [
        (["send"], {"send"}),
        (["read"], {"read"}),
        (["read-values"], {"read", "read-values"}),
        (["run"], {"read", "run"}),
        (["review"], {"read", "read-values", "review"}),
        (["admin"], {"read", "read-values", "run", "review", "admin"}),
        (["send", "run"], {"send", "read", "run"}),
        (["all"], set(RIGHTS)),
    ],
)
def test_a_role_gives_its_right_and_what_that_implies(roles: list[Role], gives: set[str]) -> None:
    assert rights_of(roles) == gives


def test_a_made_token_lets_in_with_its_rights_and_its_tenant(path: Path) -> None:
    token, secret = new_token(path, "checkout", ["send", "send"], "shop", None, NOW)
    caller = MadeTokens(path).caller(digest_of(secret))
    assert caller is not None
    assert (caller.rights, caller.tenant, caller.name, caller.owner) == ({"send"}, "shop", "checkout", token.id)
    assert MadeTokens(path).caller(digest_of(secret[:-1])) is None


def test_the_secret_is_recognised_by_its_form_and_stored_nowhere(path: Path) -> None:
    secrets = {new_token(path, f"token {number}", ["all"], None, None, NOW)[1] for number in range(20)}
    assert len(secrets) == 20
    for secret in secrets:
        assert re.fullmatch(r"tgr_[0-9A-Za-z]{36}", secret)
        assert _has_crc32(secret)
        assert secret not in path.read_text()
    assert MadeTokens(path).caller(digest_of(secrets.pop())).rights == EVERYTHING  # type: ignore[union-attr]


def test_a_token_lets_nobody_in_once_it_has_expired(path: Path) -> None:
    clock = Clock()
    _, secret = new_token(path, "short", ["read"], None, 60.0, NOW)
    made = MadeTokens(path, clock)
    clock.ns = NOW + 60 * S - 1
    assert made.caller(digest_of(secret)) is not None
    clock.ns = NOW + 60 * S
    assert made.caller(digest_of(secret)) is None


def test_after_rotation_both_secrets_let_in_until_the_grace_is_over(path: Path) -> None:
    clock = Clock()
    made = MadeTokens(path, clock)
    token, old = new_token(path, "page", ["read"], "shop", 1000.0, NOW)
    changed, new = rotate_token(path, "page", 30.0, None, NOW)
    assert (changed.id, changed.expires_ns) == (token.id, token.expires_ns)
    clock.ns = NOW + 30 * S - 1
    assert [made.caller(digest_of(secret)) == changed.caller for secret in (old, new)] == [True, True]
    clock.ns = NOW + 30 * S
    assert [made.caller(digest_of(secret)) for secret in (old, new)] == [None, changed.caller]
    later, newest = rotate_token(path, token.id, 0.0, 5000.0, clock.ns)
    assert later.expires_ns == clock.ns + 5000 * S
    assert [made.caller(digest_of(secret)) for secret in (old, new, newest)] == [None, None, later.caller]


def test_a_revoked_token_lets_nobody_in_and_its_name_is_free(path: Path) -> None:
    made = MadeTokens(path)
    _, secret = new_token(path, "page", ["read"], None, None, NOW)
    _, old = new_token(path, "old", ["read"], None, None, NOW)
    rotate_token(path, "old", 10**9, None, NOW)
    assert made.caller(digest_of(secret)) is not None
    revoke_token(path, "page", NOW)
    revoke_token(path, "old", NOW)
    assert made.caller(digest_of(secret)) is None
    assert made.caller(digest_of(old)) is None
    _, other = new_token(path, "page", ["read"], None, None, NOW)
    assert made.caller(digest_of(other)) is not None
    path.unlink()
    assert made.caller(digest_of(other)) is None


def test_tokens_that_several_make_at_once_are_all_there(path: Path) -> None:
    def make(number: int) -> None:
        new_token(path, f"token {number}", ["read"], None, None, NOW)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stored_tokens(path)) == 10


@pytest.mark.parametrize("change", [rotate_token, revoke_token])
def test_what_is_not_there_cannot_be_changed(path: Path, change: object) -> None:
    def attempt(called: str) -> None:
        if change is rotate_token:
            rotate_token(path, called, 0.0, None, NOW)
        else:
            revoke_token(path, called, NOW)

    new_token(path, "gone", ["read"], None, 1.0, NOW - 2 * S)
    with pytest.raises(TraceGradeError, match="the token 'other' does not exist; 'tracegrade tokens list --all' shows"):
        attempt("other")
    with pytest.raises(TraceGradeError, match="the token 'gone' is not valid any more: it was revoked or has expired"):
        attempt("gone")


def test_two_tokens_of_one_name_are_refused(path: Path) -> None:
    new_token(path, "page", ["read"], None, None, NOW)
    with pytest.raises(
        TraceGradeError, match="there is a token 'page' already; rotate it, revoke it, or choose another"
    ):
        new_token(path, "page", ["admin"], None, None, NOW)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "the file: Invalid JSON"),
        ("{}", "the file: Input should be a valid array"),
        ('[{"id": "1"}]', r"0\.name: Field required"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(path: Path, content: str, why: str) -> None:
    path.write_text(content)
    with pytest.raises(TraceGradeError, match=f"tokens.json: {why}.*restore it from a backup"):
        MadeTokens(path)


def test_two_tenants_with_one_secret_are_refused(path: Path) -> None:
    new_token(path, "a", ["read"], "shop", None, NOW)
    [token] = stored_tokens(path)
    other = token.model_copy(update={"id": "2", "name": "b", "tenant": "bank"})
    path.write_text(f"[{token.model_dump_json()},{other.model_dump_json()}]")
    with pytest.raises(
        TraceGradeError, match="the tokens 'a' and 'b' have one secret; each needs its own: take both out"
    ):
        MadeTokens(path)


def test_a_file_that_is_damaged_while_serving_changes_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, secret = new_token(path, "page", ["read"], None, None, NOW)
    made = MadeTokens(path)
    path.write_text("no json")
    assert made.caller(digest_of(secret)) is not None
    assert "the old one stays in force" in caplog.text


def test_its_user_alone_can_read_the_file(path: Path) -> None:
    new_token(path, "page", ["read"], None, None, NOW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
