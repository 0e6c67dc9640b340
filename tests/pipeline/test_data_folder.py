"""What the two roles leave for each other in the data folder."""

from pathlib import Path

import pytest

from tracegrade.pipeline.data_folder import DataFolder


@pytest.mark.parametrize("content", ["", "{", '[["00'])
def test_a_list_of_hung_pairs_that_a_power_cut_spoilt_is_begun_anew(content: str, tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.hung.write_text(content)
    assert folder.hung_pairs() == set()
    folder.add_hung_pair("ab" * 16, "slow-rule")
    assert folder.hung_pairs() == {("ab" * 16, "slow-rule")}


def test_an_instance_keeps_its_name(tmp_path: Path) -> None:
    assert DataFolder(tmp_path).instance_id() == DataFolder(tmp_path).instance_id()
