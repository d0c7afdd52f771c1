"""`storelab quick`: names from addresses, mistakes in words of the command line, and when it gives up."""

import re
from types import SimpleNamespace

import pytest
from paths import ROOT

from storelab.cli import quick as command
from storelab.core.errors import MeasurementFailed, UserError
from storelab.core.model import NAME
from storelab.measure import quick


def test_store_name_comes_from_any_address():
    for url, name in (
        ("https://s3.example.org", "s3.example.org"),
        ("http://127.0.0.1:19109/", "127.0.0.1-19109"),
        ("http://[::1]:80", "1-80"),
        ("S3.Example.org", "endpoint"),
        ("https://a b/", "a-b"),
        ("http://x:99999", "endpoint"),
        ("", "endpoint"),
        ("https://[oops", "endpoint"),
    ):
        assert command.store_name(url) == name and NAME.match(name), url


def test_mistakes_name_options_of_command_line():
    name = "s3.example.org"
    hint = "set the store's `region`, or the store's `profile`"
    expected = re.escape("quick: no answer; set --region, or --profile")
    with pytest.raises(UserError, match=expected), command.spelled(name):
        raise UserError(f"stores.{name}.endpoint", "no answer", hint)
    with pytest.raises(MeasurementFailed, match=r"^quick: gone$"), command.spelled(name):
        raise MeasurementFailed(f"stores.{name}: gone")


def test_three_failures_in_a_row_end_it(monkeypatch):
    asked: list[str] = []
    bad = {"b", "d", "e"}

    def point(config, points, key):
        asked.append(key)
        if key in bad:
            raise MeasurementFailed(f"{key}: no answer")

    monkeypatch.setattr(quick.point, "point", point)
    points = [SimpleNamespace(key=k) for k in "abcdefg"]
    quick._all(None, points)
    assert asked == list("abcdefg")
    asked.clear()
    bad |= {"c"}
    with pytest.raises(MeasurementFailed, match=r"3 points .* d: no answer"):
        quick._all(None, points)
    assert asked == list("abcd")


def test_without_go_programs_obstore_measures(monkeypatch):
    from storelab.cli import Settings
    from storelab.install import golang

    monkeypatch.chdir(ROOT)
    settings = Settings("config.yaml", (), ())
    monkeypatch.setattr(golang, "present", lambda *_: True)
    assert command.without_loadgen(settings) == {}
    monkeypatch.setattr(golang, "present", lambda *_: False)
    config = settings.load_with({"campaign": "quick", **command.without_loadgen(settings)})
    engines = {str(s.axes.get("engine")) for s in config.sweeps.values()}
    assert not config.calibrate and engines == {"None", "obstore", "['uproot-s3fs', 'planned']"}
