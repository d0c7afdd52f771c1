"""The folder on tmpfs that all campaigns of a user share on a machine."""

from storelab.host import scratch


def test_folder_stays_while_a_campaign_uses_it(tmp_path):
    folder = scratch.folder(tmp_path)
    (folder / "body").touch()
    with scratch.using(tmp_path):
        with scratch.using(tmp_path):
            assert not scratch.clear(tmp_path)
        assert not scratch.clear(tmp_path) and (folder / "body").exists()
    assert scratch.clear(tmp_path) and not folder.exists()
    with scratch.using(tmp_path) as used:
        assert used == folder and folder.exists() and not scratch.clear(tmp_path)
