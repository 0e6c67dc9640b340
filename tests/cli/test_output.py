"""Tables on terminals of any width."""

import io
import json
import sys
import unicodedata
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracegrade.cli import output
from tracegrade.cli.output import print_table, print_text, styled
from tracegrade.display import json_text, printable, printable_json, printable_xml

TRACE = "0af7651916cd43dd8448eb211c80319c"
ROW = ["fail", "order-quantity-differs-from-request", "order-agent", TRACE]
Shown = Callable[..., str]
_cells = st.text(st.sampled_from("ab 1東é\n\t"), max_size=6) | st.sampled_from(["✓ pass", "a [b] c", ":smile:"])


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


@pytest.mark.parametrize(("width", "end"), [(100, "one does not"), (70, "one doe")])
def test_a_long_text_is_cut_and_its_column_stays(
    width: int, end: str, shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(width)
    long = "the server of one does not answer: " + "東" * 200
    rows = [["a", "done", "short", "x" * 20], ["b", "failed", long, "x" * 20]]
    print_table("", ["job", "state", "message", "runs"], rows, spare=["runs", "message"], cut="message")
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    (cut,) = [line for line in lines if "…" in line]
    assert cell_len(cut.rstrip()) in (width - 3, width - 2, width - 1, width)
    assert end in cut
    assert any("short" in line for line in lines)


def test_an_id_is_never_broken(shown: Shown) -> None:
    text = shown(60)
    assert TRACE in text
    assert ROW[1] not in text  # broken instead
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_what_is_too_wide_for_a_table_is_shown_in_blocks_that_fit(
    width: int, shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(width)
    columns = ["time", "rule", "evaluation", "agent", "trace"]
    row = ["2026-11-22 19:02:22", "conversation-orders-too-often", "tool-call-count", "order-agent", TRACE]
    print_table("", columns, [row], whole=["time", "trace"], spare=["agent"])
    text = click.unstyle(capsys.readouterr().out)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert TRACE in text
    if width < 100:
        assert "rule conversation-orders-too-often" in text


def test_a_pipe_gets_every_column_unless_columns_says_less_and_no_blanks_at_the_end(shown: Shown) -> None:
    text = shown(0, is_terminal=False)
    assert all(cell in text for cell in ROW)
    narrow = shown(90, is_terminal=False)
    assert "order-agent" not in narrow
    assert not [line for line in (*text.splitlines(), *narrow.splitlines()) if line != line.rstrip()]


@given(
    cells=st.integers(1, 4).flatmap(
        lambda columns: st.lists(st.lists(_cells, min_size=columns, max_size=columns), min_size=2, max_size=4)
    )
)
def test_a_table_that_fits_is_laid_out_as_one_that_does_not(cells: list[list[str]]) -> None:
    text = _printed(cells)
    _, _, below_title = _printed(cells, title="t").partition("\n")  # what has a title is always laid out by rich
    assert text == below_title
    if all(cell.isprintable() for row in cells for cell in row):
        wide = _printed(cells, width=4000)  # with the blanks that a pipe does not get
        assert [line.rstrip() for line in wide.splitlines()] == text.splitlines()
        width = max(map(cell_len, wide.splitlines()))
        assert _printed(cells, width=width) == wide
        assert _printed(cells, width=width - 1) != wide


def _printed(cells: list[list[str]], *, title: str = "", width: int | None = None) -> str:
    """The table as it is printed to a pipe, or to a terminal of `width` columns."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(output):
        if width is not None:
            patched.setattr(output, "isatty", lambda: True)
            patched.setenv("COLUMNS", str(width))
            patched.setenv("TERM", "xterm")
        print_table(title, cells[0], cells[1:])
    return click.unstyle(output.getvalue())


@pytest.mark.parametrize("width", [80, 8])  # as one text, and broken
def test_a_cell_keeps_its_style_on_a_terminal_alone(
    width: int, shown: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed() -> str:
        print_table("", ["a", "b"], [[styled("x", "red") + styled("y"), "z"]])
        return capsys.readouterr().out

    shown(width)
    assert "\x1b[31mx\x1b[0my" in printed()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert "\x1b" not in printed()
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31mx\x1b[0my" in printed()


def test_a_line_too_long_for_a_pipe_is_broken_and_others_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(["word"] * 40)  # 199 columns
    print_text(styled(words) + styled("."))
    print_text(styled(f"{words} and more"))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [f"{words}.", words, "and more"]


@given(st.text(st.characters(codec=None)))
def test_what_is_printed_is_one_line_and_nothing_that_a_terminal_obeys(text: str) -> None:
    for shown in (printable(text), printable_json(json_text(text)), printable_xml(text.replace("\n", " "))):
        assert not {unicodedata.category(c) for c in shown if c not in "\t\u200c\u200d"} & {"Cc", "Cs", "Zl", "Zp"}
        assert len(shown.splitlines()) <= 1
    assert json.loads(printable_json(json_text(text))) == text


def test_commands_print_by_way_of_what_makes_text_printable() -> None:
    folder = Path(output.__file__).parent
    elsewhere = [path.name for path in folder.glob("*.py") if "click.echo(" in path.read_text()]
    assert elsewhere == ["output.py"]


def test_a_line_is_printed_above_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with output.progress("cases", 3):
        output.print_line("a line", err=True)
    said = capsys.readouterr().err
    assert "\x1b[2Ka line" in said  # the line of the bar is cleared for it
