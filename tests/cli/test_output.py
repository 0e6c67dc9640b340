"""Tables on terminals of any width."""

import sys
from collections.abc import Callable

import click
import pytest

from tracegrade.cli.output import print_table

TRACE = "0af7651916cd43dd8448eb211c80319c"
ROW = ["fail", "order-quantity-differs-from-request", "order-agent", TRACE]
Shown = Callable[..., str]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """The row's table on a terminal of so many columns, or on a pipe."""

    def show(width: int, *, is_terminal: bool = True) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
        print_table("", ["outcome", "rule", "agent", "trace"], [ROW], whole=["trace"], spare=["agent"])
        return click.unstyle(capsys.readouterr().out)

    return show


def test_a_wide_terminal_shows_every_column(shown: Shown) -> None:
    text = shown(120)
    assert all(cell in text for cell in ROW)


def test_a_narrow_terminal_leaves_out_what_it_can_spare(shown: Shown) -> None:
    text = shown(90)
    assert "order-agent" not in text
    assert all(cell in text for cell in ROW if cell != "order-agent")


def test_an_id_is_never_broken(shown: Shown) -> None:
    text = shown(60)
    assert TRACE in text
    assert ROW[1] not in text  # broken instead
    assert max(map(len, text.splitlines())) <= 60


def test_a_pipe_gets_every_column_whatever_its_terminal(shown: Shown) -> None:
    text = shown(40, is_terminal=False)
    assert all(cell in text for cell in ROW)
