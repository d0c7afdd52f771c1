"""The folder on tmpfs that all campaigns of a user share on a machine."""

from types import SimpleNamespace

from storelab import stage


def test_it_stays_while_any_campaign_uses_it(tmp_path):
    config = SimpleNamespace(scratch=str(tmp_path))
    folder = stage.scratch_dir(config)
    (folder / "body").touch()
    with stage.using_scratch(config):
        with stage.using_scratch(config):
            assert not stage.clear_scratch(config)
        assert not stage.clear_scratch(config) and (folder / "body").exists()
    assert stage.clear_scratch(config) and not folder.exists()
    with stage.using_scratch(config):
        assert folder.exists() and not stage.clear_scratch(config)
