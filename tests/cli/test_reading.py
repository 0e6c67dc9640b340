from pathlib import Path

from click.testing import CliRunner

from build import each
from tracegrade.alert.notify.links import Links
from tracegrade.cli import main
from tracegrade.cli.settings import read_settings


@each("data_dir", [None, "", "elsewhere", "/var/lib/tracegrade"])
def test_without_a_file_settings_are_those_of_an_empty_one(data_dir: str | None, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    assert read_settings(None, data_dir) == read_settings(tmp_path / "config.yaml", data_dir)


def test_a_file_says_where_the_store_is_and_what_to_link_to(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("store: {url: 'sqlite:////there.db'}\nalerts: {external_url: 'http://page'}\n")
    read = read_settings(file, "elsewhere")
    assert read.store_url == "sqlite:////there.db"
    assert read.links == Links("http://page", "http://page/traces/{trace_id}")


@each("command", ["results list", "results stats", "traces list", "alerts list"])
def test_a_wrong_file_stops_what_needs_none_of_what_is_wrong(command: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("traces:\n  settle: soon\n")
    result = CliRunner().invoke(main, [*command.split(), "-c", str(file)])
    assert result.exit_code == 2
    assert f"{file}:2:3: traces.settle: expected a duration" in result.stderr
