from pathlib import Path

from receive.checklist import CHECKLIST, page, shown_by


def test_every_line_of_the_checklist_is_shown_and_no_test_names_another() -> None:
    assert sorted(shown_by()) == sorted(CHECKLIST)


def test_the_page_is_up_to_date() -> None:
    written = Path(__file__).with_name("OTLP.md").read_text(encoding="utf-8")
    assert written == page() + "\n", "python tests/receive/checklist.py > tests/receive/OTLP.md"
