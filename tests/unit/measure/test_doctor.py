"""`storelab doctor` checks everything, and never raises."""

from storelab.core import integrity
from storelab.core.errors import UserError
from storelab.measure import doctor
from storelab.stores.config import Config
from storelab.stores.minio import MinIO
from storelab.stores.nginx import Nginx


def test_doctor_reports_each_finding_with_its_place(monkeypatch, tmp_path, capsys, port_block):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    stores = {
        "a": {"kind": "seaweedfs", "port": port_block},
        "b": {"kind": "seaweedfs", "port": port_block + 8},
        "c": {"kind": "s3", "endpoint": "nonsense"},
    }
    base = {
        "campaign": "x",
        "name": "x",
        "stores_to_measure": ["a"],
        "sweeps": {"s": {"workload": "put"}},
        "stores": stores,
    }
    places = {"results": str(tmp_path / "r"), "state": str(tmp_path / "s"), "scratch": str(tmp_path / "none")}
    findings = {f.name: f for f in doctor.examine(Config.model_validate(base | places))}
    failed = {"ports of a", "scratch", "stores.c", "stores.c.endpoint"}
    assert failed <= {name for name, f in findings.items() if f.level == "fail"}
    assert "32 apart" in findings["ports of a"].hint and "credentials" in findings["stores.c"].value
    assert findings["s5cmd"].level == "ok" and findings["store a"].value == "down"
    assert not (tmp_path / "s").exists()
    doctor.print_findings(findings.values())
    assert "s5cmd" in capsys.readouterr().out


def test_doctor_notes_missing_stores_of_a_sealed_campaign(monkeypatch, tmp_path):
    base = {
        "campaign": "x",
        "name": "x",
        "calibrate": False,
        "stores_to_measure": ["a"],
        "sweeps": {"s": {"workload": "put"}},
        "stores": {"a": {"kind": "minio"}, "b": {"kind": "nginx"}},
        "results": str(tmp_path / "r"),
        "state": str(tmp_path / "s"),
    }
    for kind in (MinIO, Nginx):
        monkeypatch.setattr(kind, "require", refuse)
    config = Config.model_validate(base)

    def levels():
        found = {f.name: f for f in doctor.examine(config)}
        return found["store a"].level, found["store b"].level

    assert levels() == ("fail", "note")
    config.raw.mkdir(parents=True)
    (config.raw / integrity.SEAL).write_text("{}")
    assert levels() == ("note", "note")


def refuse(self):
    raise UserError(self.place, "the program is not installed", "install it")
