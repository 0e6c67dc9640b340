from pathlib import Path

import yaml

from tracegrade.config import load_config
from tracegrade.suites.settings import suites_settings


def test_the_file_of_models_is_relative_to_that_of_the_settings_and_by_default_to_the_working_directory(
    tmp_path: Path,
) -> None:
    assert suites_settings(load_config(None)).models == "models.yaml"
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"suites": {"models": "mine.yaml"}}))
    config = load_config(path)
    assert suites_settings(config).models == str(tmp_path / "mine.yaml")
    shown = load_config(None).model_dump(mode="json")["suites"]
    assert shown["models"] == str(Path("models.yaml").absolute()), "what is printed means the same anywhere"
