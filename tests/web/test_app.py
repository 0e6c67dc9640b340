from pathlib import Path

from tracegrade.store.open import open_store
from web.site import serving


def test_rules_without_results_are_listed(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}").dispose()
    with serving(tmp_path, "builtin:demo") as site:
        answer = site.get("/")
    assert answer.status == 200
    assert "order-not-confirmed" in answer.text


def test_without_a_store_it_says_so(tmp_path: Path) -> None:
    with serving(tmp_path) as site:
        answer = site.get("/")
    assert answer.status == 503
    assert "no such store" in answer.text


def test_an_unknown_address_is_not_found(tmp_path: Path) -> None:
    with serving(tmp_path) as site:
        answer = site.get("/nowhere")
    assert answer.status == 404
    assert "Not found" in answer.text


def test_every_answer_forbids_what_is_not_served_here(tmp_path: Path) -> None:
    with serving(tmp_path) as site:
        for path in ("/", "/nowhere", "/static/style.css"):
            headers = site.get(path).headers
            assert headers["Content-Security-Policy"].startswith("default-src 'none';")
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_crash_is_a_page_of_its_own_with_the_same_headers(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}").dispose()
    with serving(tmp_path) as site:
        del site.rules
        answer = site.get("/")
    assert answer.status == 500
    assert "cannot be shown" in answer.text
    assert "Content-Security-Policy" in answer.headers
