"""``tracegrade traces delete``, where redaction hides whose a trace is."""

from pathlib import Path

from click.testing import CliRunner

from build.served_folder import ServedFolder, secret_trace
from tracegrade.cli import main


def test_of_a_user_who_is_masked_nothing_is_promised(tmp_path: Path) -> None:
    kept = ServedFolder(tmp_path / "data")
    kept.receive(secret_trace(1, "a", user="[redacted:email]"))
    settings = tmp_path / "config.yaml"
    settings.write_text("data_dir: data\nredaction: {detectors: all}\n")

    def delete(user: str) -> tuple[int, str]:
        command = ["traces", "delete", "--user", user, "--yes", "-c", str(settings), "--data-dir", str(kept.folder)]
        result = CliRunner().invoke(main, command)
        return result.exit_code, " ".join(result.stderr.split())

    code, said = delete("ann@corp-1.io")
    assert code == 1
    assert said.startswith("Redaction puts the same mask in place of user 'ann@corp-1.io' and of others")
    assert "Nothing was kept" not in said
    assert delete("ann") == (1, "Nothing was kept of all traces of user 'ann'.")


def test_of_traces_without_values_it_is_said_that_nobody_knows_whose_they_are(tmp_path: Path) -> None:
    kept = ServedFolder(tmp_path / "data")
    kept.receive(secret_trace(1, "a", user="ann"))
    settings = tmp_path / "config.yaml"
    settings.write_text("data_dir: data\nstore: {values_retention: 2d}\n")
    command = ["traces", "delete", "--user", "ann", "--yes", "-c", str(settings), "--data-dir", str(kept.folder)]
    for code in (0, 1):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == code
        assert "UTC is not kept (store.values_retention): if there are any of this user" in " ".join(
            result.stderr.split()
        )
