"""A store is one file or folder and one line in the registry: everything else finds it there."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from storelab import install
from storelab.cli import reference
from storelab.core import config, stores
from storelab.core.errors import UserError
from storelab.stores import all_stores
from storelab.workloads.probe import administration, questions

TOY = '''
from typing import Literal

from pydantic import Field

from storelab.core.answers import NO, Told
from storelab.install import Part
from storelab.stores.posix.directory import Directory
from storelab.stores.posix.directory import Settings as Folder


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
        return [Told("users listed", NO, self.settings.colour)]
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A function that loads a configuration with one store of this kind; its keys."""
    (tmp_path / "toy_store.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(stores.KINDS, "toy", "toy_store:Toy")
    text = "campaign: c.yaml\nname: c\nuse_stores: [t]\ncalibrate: false\nsweeps: {s: {workload: put}}\n"
    (tmp_path / "c.yaml").write_text(text.partition("\n")[2])
    (tmp_path / "config.yaml").write_text("campaign: c.yaml\n")

    def load(**keys):
        return config.load(
            tmp_path / "config.yaml", overrides={"stores": {"t": {"kind": "toy", "path": str(tmp_path), **keys}}}
        )

    yield load
    sys.modules.pop("toy_store", None)


def test_a_store_is_a_file_and_a_line(toy):
    store = all_stores(toy(colour="blue"))["t"]
    assert (store.settings.colour, store.protocol, store.managed) == ("blue", "file", False)
    assert [t.evidence for t in administration.ask(store)] == ["blue"]
    assert [p.what for p in install.parts("toy", Path("none"))] == ["paint"]
    assert (
        "## `stores.<name>` of kind `toy`" in reference.configuration()
        and "| `colour` | one of `red`, `blue` |" in reference.configuration()
    )


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"color": "red"}, "command line: stores.t.color: unknown key 'color'; did you mean 'colour'?"),
        (
            {"colour": "green"},
            "command line: stores.t.colour: \"green\": input should be 'red' or 'blue'; see docs/configuration.md",
        ),
        ({"kind": "toys"}, "command line: stores.t.kind: no store of kind 'toys'; one of: seaweedfs, "),
        ({"kind": ["toy"]}, "command line: stores.t.kind: no store of kind ['toy']; one of: seaweedfs, "),
        ({"path": 5}, "command line: stores.t.path: 5 is no text; put it in quotes"),
        (
            {"prefix": "A"},
            "command line: stores.t.prefix: \"A\": string should match pattern '^[a-z0-9][a-z0-9-]*$'; see docs/configuration.md",
        ),
    ],
)
def test_what_is_wrong_is_told_in_a_line(toy, keys, line):
    with pytest.raises(UserError) as found:
        toy(**keys)
    assert str(found.value).startswith(line)


def test_what_is_no_store_at_all(toy, tmp_path):
    for wrong in (5, None, {}):
        with pytest.raises(UserError, match=r"command line: stores\.t\.kind: no store of kind"):
            config.load(tmp_path / "config.yaml", overrides={"stores": {"t": wrong}})
    with pytest.raises(UserError, match=r"command line: stores\.a b: 'a b' is not a name"):
        config.load(tmp_path / "config.yaml", overrides={"stores": {"a b": {"kind": "toy", "path": "."}}})


@pytest.mark.parametrize("kind", stores.KINDS)
def test_every_kind_keeps_the_conventions(kind):
    store = stores.load(kind)
    assert store.Settings.model_fields["kind"].annotation.__args__ == (kind,) and store.Settings.__doc__
    assert store.protocol in questions.PROTOCOLS
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        store.Settings.model_validate({"kind": kind, "no-such-key": 1})


@pytest.mark.parametrize("protocol", questions.PROTOCOLS)
def test_every_protocol_has_questions_and_what_they_are_asked_with(protocol):
    module = importlib.import_module(f"storelab.workloads.probe.{questions.PROTOCOLS[protocol]}")
    assert len(questions.checks(protocol)) > 5 and callable(module.CONTEXT)


def test_what_is_installed_is_known_by_the_stores():
    assert "nginx" in install.parts("nginx", Path("none"))[0].what
    assert "slurmd" in install.parts("slurm", Path("none"))[0].what
    with pytest.raises(
        UserError,
        match=r"no store 'tape' to install; one of: seaweedfs, ceph, .*, hdfs, glusterfs, openafs, garage, rclone, nullserver, slurm, ",
    ):
        install.parts("tape", Path("none"))
    assert "SeaweedFS 4.47" in install.parts("seaweedfs", Path("none"))[0].what
    for kind in ("directory", "s3"):
        with pytest.raises(
            UserError, match=f"there is nothing to install for {kind}; what it needs comes with `make setup`"
        ):
            install.parts(kind, Path("none"))


def test_who_plans_and_who_moves_bytes_loads_little():
    """Settings stand beside the class: its module must stay cheap. Clients read the contract, and need neither models nor stores."""
    plan = f"from storelab.core import stores; [stores.load(k) for k in {list(stores.KINDS)}]"
    client = "import storelab.engines.contract, storelab.stores.base, storelab.core.calibration"
    for code, unwanted in (
        (plan, ("boto3", "botocore", "fsspec", "urllib3", "psutil", "XRootD")),
        (client, ("pydantic", "pyarrow", "yaml")),
    ):
        loaded = subprocess.run(
            [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert not set(unwanted) & set(loaded.stdout.split())
