"""The page of a real ``serve``."""

from contextlib import suppress
from os import kill
from pathlib import Path
from signal import SIGKILL
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from build.served import Server, alive, children, served
from waiting import eventually

pytestmark = pytest.mark.long


def test_the_page_is_started_by_the_first_call_and_again_when_it_ends(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert server.process is not None
        judge = server.judge_pid
        assert children(server.process.pid) == [judge]
        assert "order-not-confirmed" in _page(server.endpoints["web"])
        (web,) = set(children(server.process.pid)) - {judge}
        kill(web, SIGKILL)
        assert "order-not-confirmed" in _page(server.endpoints["web"])
        assert server.stop() == 0
        eventually(lambda: not alive(web), "the web process to end with its parent")


def test_the_judge_stores_what_its_rules_say_and_the_receiver_publishes_both_roles(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        url = server.endpoints["web"]
        rule = f"{url}/rules/order-steps-out-of-order"
        eventually(lambda: "not known" not in _page(rule), "the rule's text in the store")
        eventually(lambda: _page(f"{url}/ingest").count("● alive") == 2, "both roles' metrics")


def test_the_page_alone_says_that_there_is_no_store_yet(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.start(role="web")
    with pytest.raises(HTTPError, match="503") as refused:
        urlopen(server.endpoints["web"])
    with refused.value as answer:
        assert "no such store" in answer.read().decode()
    assert server.stop() == 0
    assert "Traceback" not in server.log


def _page(url: str) -> str:
    def look() -> str:
        # The store is being made, the process is being started again.
        with suppress(OSError), urlopen(url) as response:
            return str(response.read().decode())
        return ""

    return str(eventually(look, "the page"))
