"""The registry of stores: one file or folder and one line make a store that everything else finds."""

import importlib
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError
from refusals import all_refused, refusal

from storelab import stores
from storelab.cli import settings_pages
from storelab.stores import all_stores, config, make, recipes
from storelab.workloads.probe import workload

TOY = '''
from typing import Literal

from pydantic import Field

from storelab.stores.base import NO, AdminAnswer
from storelab.install import Part
from storelab.stores.external import Directory
from storelab.stores.external import DirectorySettings as Folder


class Settings(Folder):
    """A folder with a colour."""

    kind: Literal["toy"]
    colour: Literal["red", "blue"] = Field("red", description="Its paint.")


class Toy(Directory):
    Settings = Settings

    @staticmethod
    def recipe(tools):
        return [Part("paint", "nothing", lambda: True, print)]

    def administration(self):
        return [AdminAnswer("users listed", NO, self.settings.colour)]
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Return a function that loads a configuration with one store of this kind; its keys."""
    (tmp_path / "toy_store.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(stores.KINDS, "toy", "toy_store:Toy")
    text = "campaign: c.yaml\nname: c\nstores_to_measure: [t]\ncalibrate: false\nsweeps: {s: {workload: put}}\n"
    (tmp_path / "c.yaml").write_text(text.partition("\n")[2])
    (tmp_path / "config.yaml").write_text("campaign: c.yaml\n")

    def load(**keys):
        store = {"kind": "toy", "path": str(tmp_path), **keys}
        return config.load(tmp_path / "config.yaml", overrides={"stores": {"t": store}})

    yield load
    sys.modules.pop("toy_store", None)


def test_new_store_is_found_everywhere(toy):
    store = all_stores(toy(colour="blue"))["t"]
    assert (store.settings.colour, store.protocol, store.managed) == ("blue", "file", False)
    assert [t.evidence for t in workload.ask_administration(store)] == ["blue"]
    assert [p.what for p in recipes.parts("toy", Path("none"))] == ["paint"]
    text = settings_pages.store_kinds()
    assert "### `toy`" in text and "| `colour` | one of `red`, `blue` |" in text


def test_mistakes_in_settings_name_the_key(toy, tmp_path):
    mistakes = [
        ({"color": "red"}, "stores.t.color", "'colour'"),
        ({"colour": "green"}, "stores.t.colour", "'red' or 'blue'"),
        ({"kind": "toys"}, "stores.t.kind", "one of: seaweedfs, "),
        ({"kind": ["toy"]}, "stores.t.kind", "one of: seaweedfs, "),
        ({"path": 5}, "stores.t.path", "quotes"),
        ({"prefix": "A"}, "stores.t.prefix", "[a-z0-9]"),
    ]
    all_refused((f"command line: {place}: ", text, partial(toy, **keys)) for keys, place, text in mistakes)
    for given, place in (
        ({"t": 5}, "stores.t.kind"),
        ({"t": None}, "stores.t.kind"),
        ({"t": {}}, "stores.t.kind"),
        ({"a b": {"kind": "toy", "path": "."}}, "stores.a b"),
    ):
        message = refusal(config.load, tmp_path / "config.yaml", overrides={"stores": given})
        assert message.startswith(f"command line: {place}: "), (given, message)
    assert "unknown kind of store" in refusal(make, "x", type("Settings", (), {"kind": "tape"})(), Path("none"))


def test_every_kind_keeps_the_conventions():
    for kind in stores.KINDS:
        store = stores.load(kind)
        fields = store.Settings.model_fields
        assert fields["kind"].annotation.__args__ == (kind,) and store.Settings.__doc__, kind
        assert store.protocol in workload.PROTOCOLS, kind
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            store.Settings.model_validate({"kind": kind, "no-such-key": 1})


def test_every_protocol_has_distinct_questions_and_a_context():
    for protocol, name in workload.PROTOCOLS.items():
        module = importlib.import_module(f"storelab.workloads.probe.{name}")
        places = [(q.topic, q.name) for q in workload.checks(protocol)]
        assert len(places) == len(set(places)) > 15 and callable(module.CONTEXT), protocol


def test_installation_is_known_by_the_store():
    for kind, what in (("nginx", "nginx"), ("slurm", "slurmd"), ("seaweedfs", "SeaweedFS 4.47")):
        assert what in recipes.parts(kind, Path("none"))[0].what
    known = ", ".join([kind for kind in stores.KINDS if stores.load(kind).managed] + ["slurm"])
    with pytest.raises(Exception, match=f"'tape'.*{known}"):
        recipes.parts("tape", Path("none"))
    for kind in ("directory", "s3"):
        assert "`make setup`" in refusal(recipes.parts, kind, Path("none"))


PLAN = """
import sys
from pathlib import Path
from storelab import stores
kinds = {kind: stores.load(kind) for kind in stores.KINDS}
print(*sys.modules)
from storelab.stores import make
make("sw", kinds["seaweedfs"].Settings(kind="seaweedfs"), Path("none")).status()
print(*sys.modules)
"""
CLIENT = "import storelab.engines.contract, storelab.stores.base, storelab.core.calibration, sys; print(*sys.modules)"


def test_planning_and_clients_import_little():
    """Settings are next to the class, so its module must load quickly. Clients need neither models nor stores."""
    for code, *unwanted in (
        (PLAN, {"boto3", "botocore", "fsspec", "urllib3", "psutil", "XRootD"}, {"boto3", "botocore"}),
        (CLIENT, {"pydantic", "pyarrow", "yaml"}),
    ):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for names, line in zip(unwanted, done.stdout.splitlines(), strict=True):
            assert not names & set(line.split())
