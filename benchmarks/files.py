"""Test the staging and the readers with ROOT files of every kind, also with damaged ones.

Every reader must read correctly what staging accepts. Branches that staging leaves out must also be unreadable for
uproot. Damage must be detected. The files are written by files_made.py (uproot) and files_root.cpp (ROOT's wheel, if it
is installed), or are real ones of ../shared/data/root. Each fault is printed with its file.
"""

import random
import resource
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import files_made
import files_root
import numpy as np
from common import ROOT, options, report, run, say, sized
from files_made import Case
from files_read import READERS, File, same, staged

REAL = ROOT.parent / "shared" / "data" / "root"
RULES = ("groups other branches", "its baskets have no offsets of their entries")  # docs/own-files.md
SEED, DAMAGES = 18, 500
MOST_MEMORY = 4_000_000_000
MOST_BYTES = 200  # maximum size of one damage


def judged(case: Case, counts: Counter[str], named: list[str]) -> None:
    """Check one file: count its branches, and append each fault to `named`."""
    counts["files"] += 1
    try:
        found = staged(case.path, case.tree)
    except Exception as error:  # noqa: BLE001 - staging must report every fault by a UserError
        named.append(f"accepted_then_failed {case.path.name}: staging ends with {type(error).__name__}: {error}")
        return
    if isinstance(found, str):
        right = case.refused in found if case.refused else not case.truth and opaque(case)
        if not right or "\n" in found:
            named.append(f"refused_though_readable {case.path.name}: {found}")
        return
    if case.refused:
        named.append(f"accepted_then_failed {case.path.name}: accepted, and nothing can be read of it")
        found.close()
        return
    n = found.entries
    some = np.array(sorted({0, n // 3, n // 2, n - 1}))
    failed: dict[str, str] = {}
    read: list[tuple[str, np.ndarray, dict[str, Any]]] = []
    for reader in READERS:
        for entries in (np.arange(n), some):
            names = [name for name in found.accepted if name not in failed]
            try:
                read.append((reader, entries, found.read(reader, names, entries)))
            except Exception:  # noqa: BLE001 - reading each branch by itself shows which one fails
                failed |= found.fails(reader, entries)
    named += [f"accepted_then_failed {case.path.name}: {name}: {why}" for name, why in failed.items()]
    counts["branches"] += len(found.accepted)
    for name in found.accepted:
        try:
            whole = None if name in failed else expected(found, case, name)
        except Exception as error:  # noqa: BLE001 - uproot may raise anything
            named.append(f"branches_wrong {case.path.name}: {name}: accepted, no truth is known, and uproot: {error}")
            continue
        for reader, entries, got in read:
            if whole is not None and name in got and not same(got[name], whole[entries]):
                named.append(f"branches_wrong {case.path.name}: {name}: {reader}")
    for name in case.truth.keys() - set(found.accepted) - found.facts["unreadable"].keys():
        named.append(f"refused_though_readable {case.path.name}: {name} has vanished")
    for name, reason in found.facts["unreadable"].items():
        counts["left_out"] += 1
        if not reason.startswith(RULES) and readable(found, case, name):
            named.append(f"refused_though_readable {case.path.name}: {name}: {reason}")
    found.close()


def expected(found: File, case: Case, name: str) -> Any:
    """Return all entries of a branch: from the case if it has them, else as uproot reads them."""
    if name in case.truth:
        return files_made.ak.Array(case.truth[name])
    return found.reference(name)


def readable(found: File, case: Case, name: str) -> bool:
    """Return whether uproot's own `array()` reads all entries of a branch that was left out.

    Their values must be correct if they are known.
    """
    try:
        array = found.reference(name)
        return len(array) == found.entries and (name not in case.truth or same(array, expected(found, case, name)))
    except Exception:  # noqa: BLE001 - uproot may raise anything; the branch is not readable
        return False


def opaque(case: Case) -> bool:
    """Return whether uproot opens the tree, but reads none of its branches."""
    import uproot

    try:
        with uproot.open(case.path) as file:
            tree = file[case.tree]
            for name in tree.keys():  # noqa: SIM118 - of a tree
                with suppress(Exception):
                    tree[name].array()
                    return False
            return bool(tree.keys())
    except Exception:  # noqa: BLE001 - uproot may raise anything; the tree cannot be opened
        return False


def real() -> Iterator[Case]:
    """Yield every tree of the real files, the newest cycle of each."""
    import uproot

    for path in sorted(REAL.glob("*.root")):
        with uproot.open(path) as file:
            kinds = file.classnames(cycle=False)
        trees = [k for k, of in kinds.items() if of in ("TTree", "TNtuple", "TNtupleD") or of.endswith("RNTuple")]
        for tree in trees:
            with uproot.open(path) as file:
                empty = int(file[tree].num_entries) == 0
            yield Case(path, tree, files_root.truth(path.stem), refused="is empty" if empty else "")


def damaged(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return (kind and place of the damage, damaged bytes).

    A bit is flipped, the end is cut off, bytes are set to zero, or two ranges of the same size are swapped.
    """
    out, size = bytearray(data), min(MOST_BYTES, len(data) // 8)
    kind = rng.choice(("flip", "cut", "zeros", "swap"))
    at, length = rng.randrange(len(data) - size), rng.randrange(1, size)
    if kind == "flip":
        out[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del out[at:]
    elif kind == "zeros":
        out[at : at + length] = bytes(length)
    else:
        other = rng.randrange(len(data) - size)
        a, b = sorted((at, other))
        length = min(length, b - a)
        out[a : a + length], out[b : b + length] = data[b : b + length], data[a : a + length]
    return f"{kind} at {at}", bytes(out)


def silent(path: Path, tree: str | None, good: dict[str, Any], entries: int) -> str | None:
    """Return how a damaged file is read wrongly; None if it is refused, left out or unharmed."""
    try:
        found = staged(path, tree)
    except Exception as error:  # noqa: BLE001 - staging must report every fault by a UserError
        return f"staging ends with {type(error).__name__}: {error}"
    if isinstance(found, str):
        return None
    if found.entries != entries:
        return f"{found.entries} entries in place of {entries}"
    if gone := good.keys() - set(found.accepted) - found.facts["unreadable"].keys():
        return f"{len(gone)} branches have vanished: {min(gone)}"
    for reader in ("planned", "uproot-s3fs"):
        if failed := found.fails(reader, np.arange(entries)):
            return f"accepted, then {next(iter(failed.values()))}"
        got = found.read(reader, found.accepted, np.arange(entries))
        if wrong := [n for n in found.accepted if n not in good or not same(got[n], good[n])]:
            return f"{reader} reads other values of {wrong[0]}"
    found.close()
    return None


def damages(cases: list[tuple[str, Case]], n: int, folder: Path, counts: Counter[str], named: list[str]) -> None:
    """Apply n seeded damages to the files, in turn.

    cases: (figure, file). Damage to a basket or page that is not compressed and has no checksum counts as damage to an
    uncompressed file.
    """
    rng, whole = random.Random(SEED), []
    for figure, case in cases:
        found = staged(case.path, case.tree)
        if isinstance(found, str):
            raise SystemExit(f"{case.path.name} is refused before it is damaged: {found}")
        good = found.read("planned", found.accepted, np.arange(found.entries))
        whole.append((figure, case, case.path.read_bytes(), good, found.entries, found.unpacked()))
        found.close()
    for i in range(n):
        figure, case, data, good, entries, plain = whole[i % len(whole)]
        what, bad = damaged(data, rng)
        (path := folder / f"damaged-{case.path.name}").write_bytes(bad)
        if touched(data, bad, plain):
            figure = "silent_damage_plain"
        counts[f"damages_{figure}"] += 1
        if (why := silent(path, case.tree, good, entries)) is not None:
            named.append(f"{figure} {case.path.name}, {what}: {why}")


def touched(good: bytes, bad: bytes, places: list[tuple[int, int]]) -> bool:
    """Return whether bytes within these (offset, size) changed; False for a file that was cut off."""
    if len(good) != len(bad):
        return False
    changed = np.flatnonzero(np.frombuffer(good, "u1") != np.frombuffer(bad, "u1"))
    return any(((changed >= at) & (changed < at + size)).any() for at, size in places)


def to_damage(cases: list[Case]) -> list[tuple[str, Case]]:
    """Return (figure, file) of the files to damage.

    silent_damage: compressed by codecs with a checksum, or RNTuples of ROOT, which have checksums; silent_damage_zstd:
    compressed by ZSTD, whose frames have none; silent_damage_plain: not compressed.
    """
    figures = {"zstd": "silent_damage_zstd", "plain": "silent_damage_plain"}
    kinds, out = ("lists", "words", "records", "ntuple", "root-vectors", "root-arrays", "root-ntuple"), []
    for case in cases:
        kind, _, codec = case.path.stem.rpartition("-")
        if kind in kinds and codec in files_made.CODECS:
            out.append((figures.get(codec, "silent_damage") if kind != "root-ntuple" else "silent_damage", case))
    return out


def main() -> None:
    args = options(__doc__)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    named: list[str] = []
    with tempfile.TemporaryDirectory(prefix="storelab-files-") as made:
        folder = Path(made)
        cases = list(files_made.by_uproot(folder))
        missing = []
        try:
            cases += files_root.by_root(folder)
        except (subprocess.CalledProcessError, ImportError) as error:
            missing.append(f"the files that ROOT writes: {error}")
        say(f"{len(cases)} files made")
        # Only after ROOT, which requests more memory than it uses. uproot may use any number in a file as a count.
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, resource.RLIM_INFINITY))
        every = sized(args, cases, cases, cases[::6])
        for case in every:
            judged(case, counts, named)
        counts["made"] = len(every)
        for case in sized(args, list(real()), list(real()), []):
            judged(case, counts, named)
        if not REAL.is_dir():
            missing.append("real files: ../shared/data/root does not exist")
        say(f"{counts['branches']} branches of {counts['files']} files and trees read")
        damages(to_damage(cases), sized(args, DAMAGES, 100, 20), folder, counts, named)
    for line in named:
        say(line[:400])
    found = Counter(line.partition(" ")[0] for line in named)
    judgements = ("branches_wrong", "accepted_then_failed", "refused_though_readable")
    damage = ("silent_damage", "silent_damage_zstd", "silent_damage_plain")
    values = {name: [float(found[name])] for name in (*judgements, *damage)}
    values |= {
        name: [float(counts[f"damages_{figure}"])]
        for name, figure in zip(("damages", "damages_zstd", "damages_plain"), damage, strict=True)
    }
    values |= {name: [float(counts[name])] for name in ("made", "files", "branches", "left_out")}
    report("files", counts["files"], values, args, missing)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "benchmarks"))
    run(main)
