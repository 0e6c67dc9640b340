from pathlib import Path

from tracegrade.alert import notify as folder
from tracegrade.alert.notify.registry import CHANNELS
from tracegrade.alert.settings import ChannelSettings


def test_every_file_is_a_kind_that_settings_know() -> None:
    files = {path.stem for path in Path(folder.__file__).parent.glob("*.py")} - {"__init__", "registry"}
    assert files == CHANNELS.keys() == set(ChannelSettings.model_fields)
