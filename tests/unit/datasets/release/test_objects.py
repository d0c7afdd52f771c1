"""Contents of a release and their names: manifest, cuts against CvmFS's loop, compressibility, names on disk."""

import itertools
import random

import numpy as np
import pytest
from zlib_ng import zlib_ng

from storelab.core.campaign.release import BODIES, KINDS, Release
from storelab.datasets.release import names, nightly, objects
from storelab.datasets.release.state import Known


def test_keys_have_two_directions():
    digest = "0123456789abcdef" * 2 + "01234567"
    key = names.key("a.example", digest, "P")
    assert key == "a.example/data/01/23456789abcdef0123456789abcdef01234567P"
    assert names.parts(key) == (digest, "P") and names.parts(names.key("a.example", digest)) == (digest, "")
    assert [names.parts(k) for k in ("a.example/.cvmfspublished", key.upper(), key + "x", "data/01/2")] == [None] * 4
    assert (
        names.content_type("a/.cvmfsreflog") == "application/x-cvmfs" and names.cache_control(key) == "max-age=259200"
    )


def test_damaged_manifest_is_refused():
    fields = {"C": "ab" * 20, "S": "7", "N": "a.example", "T": "1"}
    text = names.manifest_text(fields)
    assert text.splitlines()[0] == b"C" + b"ab" * 20 and names.manifest_fields(text) == fields
    for broken in (text.replace(b"S7", b"S8"), text[:20], b"", text.replace(b"--\n", b"")):
        with pytest.raises(ValueError):
            names.manifest_fields(broken)
    with pytest.raises(ValueError):
        names.manifest_text({"Q": "1"})


def by_the_byte(data: bytes, minimum: int, average: int, maximum: int) -> list[bytes]:
    """Return the chunks of CvmFS's Xor32Detector, one byte after the other, in one block."""
    out, last, begin = [], 0, 0
    while True:
        rolling, at, cut = 0, last + minimum - 32, None
        while at < min(last + maximum, len(data)):
            rolling = ((rolling << 1) ^ data[at]) & 0xFFFFFFFF
            away = (rolling - (2**31 - 1)) & 0xFFFFFFFF
            away = away - 2**32 if away >= 2**31 else away
            if at >= last + minimum and abs(away) < (2**32 - 1) // average:
                cut = at
                break
            at += 1
        if cut is None and at == last + maximum and at < len(data):
            cut = at
        if cut is None:
            return [*out, data[begin:]] if data[begin:] else out
        out.append(data[begin:cut])
        last = begin = cut


def test_cuts_are_those_of_cvmfs():
    for length in (0, 1, 63, 64, 65, 100, 256, 257, 512, 4000, 20000):
        check_cuts(length)


def check_cuts(length):
    rng = random.Random(length)
    noise, zeros = rng.randbytes(length), bytes(length)
    for data in (noise, zeros, noise[: length // 2] + zeros[length // 2 :]):
        wanted = by_the_byte(data, 64, 128, 256)
        for size in (1, 37, 1000, 10**6):
            blocks = [data[i : i + size] for i in range(0, length, size)]
            for step in (16, 100, 2**20):
                assert list(objects.chunks(blocks, 64, 128, 256, step)) == wanted
    assert length < 20000 or len(set(map(len, by_the_byte(noise, 64, 128, 256)))) > 20


def test_rolling_sum_covers_32_bytes():
    data = random.Random(1).randbytes(50)
    for i, found in enumerate(objects.sums(data).tolist()):
        rolling = 0
        for byte in data[: i + 32]:
            rolling = ((rolling << 1) ^ byte) & 0xFFFFFFFF
        assert found == rolling


def test_contents_compress_to_wanted_size():
    for body, stored in itertools.product(BODIES, (200, 1000, 8000, 50_000, 400_000)):
        n = min(20, max(2, 400_000 // stored))
        size = objects.raw_size(body, stored)
        files = [b"".join(objects.blocks(7, b"%d" % i, 3, body, size)) for i in range(n)]
        assert {len(f) for f in files} == {size} and len(set(files)) == n
        assert sum(len(zlib_ng.compress(f, 6)) for f in files) / n == pytest.approx(stored, rel=0.08)


def test_content_depends_on_seed_name_and_day():
    def made(seed, path, day):
        return b"".join(objects.blocks(seed, path, day, "text", 5000))

    objects.pool.cache_clear()
    first = made(1, b"a", 1)
    objects.pool.cache_clear()
    assert made(1, b"a", 1) == first
    assert len({first, made(2, b"a", 1), made(1, b"b", 1), made(1, b"a", 2)}) == 4
    assert [len(b"".join(objects.blocks(1, b"a", 1, "noise", n))) for n in (1, 35, 3_000_000)] == [1, 35, 3_000_000]


def test_days_have_published_means_and_deviations():
    settings = Release(factor=1)
    files, stored = np.array([nightly.volume(settings, day) for day in range(1, 6001)]).T
    n = len(files) ** 0.5
    assert abs(files.mean() - 162_000) < 4 * 28_000 / n and files.std() == pytest.approx(28_000, rel=0.06)
    assert abs(stored.mean() - 7.45e9) < 4 * 3.78e9 / n and stored.std() == pytest.approx(3.78e9, rel=0.12)
    assert files.min() > 0 and stored.min() > 0
    small, few = np.array([nightly.volume(Release(factor=0.01), day) for day in range(1, 100)]).T
    assert np.allclose(small, files[:99] / 100, atol=0.51) and np.allclose(few, stored[:99] / 100, atol=1)


def test_kinds_have_published_mean():
    """Use the closed form of the log-normal: median times exp(sigma^2 / 2)."""
    assert sum(k.share for k in KINDS) == pytest.approx(1)
    mean = sum(k.share * k.median * np.exp(k.sigma**2 / 2) for k in KINDS)
    assert mean == pytest.approx(7.45e9 / 162_000, rel=0.05)


def test_paths_are_distinct_and_spread():
    settings = Release(factor=0.1)
    paths = [nightly.path(settings, i, i % len(KINDS)) for i in range(3000)]
    assert len(set(paths)) == 3000
    projects = [p.split(b"/")[0] for p in paths]
    assert len(set(projects)) > 8 and max(map(projects.count, set(projects))) > 3 * 3000 / len(set(projects)) / 2


def test_names_on_disk_are_a_set(tmp_path):
    """Compare with a dictionary."""
    rng = random.Random(3)
    every = [rng.randbytes(20).hex() + rng.choice(["", "P", "C"]) for _ in range(400)]
    truth: dict[str, int] = {}
    with Known(tmp_path / "known") as known:
        for day in range(1, 8):
            asked = [(name, len(name)) for name in rng.choices(every, k=120)]
            wanted = sorted({n for n, _ in asked} - set(truth))
            assert sorted(known.missing(n for n, _ in asked)) == wanted
            assert sorted(known.add(asked, day)) == wanted
            assert sorted(known.add(asked, day)) == wanted, "the same day again, after a crash"
            truth |= dict.fromkeys(wanted, day)
            assert len(known) == len(truth) and known.bytes() == sum(map(len, truth))
        gone = rng.sample(sorted(truth), 50)
        assert known.remove([*gone, "00" * 20]) == 50 and len(known) == len(truth) - 50
    with Known(tmp_path / "known") as known:
        assert sorted(known.missing(truth)) == sorted(gone)
