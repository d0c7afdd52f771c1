"""The questions to a file system: a local folder supports all of them."""

from probed import job

from storelab.stores.protocols.endpoint import Bucket, Endpoint
from storelab.workloads.probe import answers, context, workload
from storelab.workloads.probe.files import Files


def test_local_folder_answers_yes(tmp_path):
    known = tmp_path / "b" / "probe" / "a" / "known"
    known.parent.mkdir(parents=True)
    known.write_bytes(context.known_body(5))
    one = Files(job(Endpoint(f"file://{tmp_path}", protocol="file"), [Bucket("b")]))
    found = {(q.topic, q.name): answers.ask_question(q, one, 1 << 62) for q in workload.checks("file")}
    attributes = found.pop(("checksums", "extended attributes"))
    if attributes.answer != "yes":  # some file systems have none
        assert (attributes.answer, attributes.evidence) == ("no", "setxattr: ENOTSUP")
    wrong = {place: (a.answer, a.evidence) for place, a in found.items() if a.answer != "yes"}
    assert len(found) >= 15 and not wrong, wrong
