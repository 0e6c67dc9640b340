from pathlib import Path

from tracegrade.alert import receivers as folder
from tracegrade.alert.receivers.registry import RECEIVERS
from tracegrade.alert.settings import ReceiverSettings


def test_every_file_is_a_kind_that_settings_know() -> None:
    files = {path.stem for path in Path(folder.__file__).parent.glob("*.py")} - {"__init__", "registry"}
    assert files == RECEIVERS.keys() == set(ReceiverSettings.model_fields)
