"""Write ROOT files for `files.py` with ROOT's wheel, in a separate process: `files_root.py FOLDER`.

The C++ code is in files_root.cpp. The truth repeats its formulas; branches without a formula are compared with uproot's
own `array()`.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from files_made import Case

from storelab.install import wheels

ENTRIES = 120
CODECS = {"plain": 0, "zlib": 101, "lzma": 201, "lz4": 401, "zstd": 501}
TIME_OUT_S = 300
# Functions of files_root.cpp: EACH runs with every codec, ONCE only with zlib.
EACH = ("vectors", "arrays", "ntuple")
ONCE = {
    "objects": "events", "unsplit": "events", "clones": "events", "references": "events", "texts": "events",
    "doubles": "events", "packed": "events", "doubled": "events",
    "embedded": "events", "bits": "events", "tuples": "nt", "tuplesd": "nd",
    "friends": "events", "partly": "events", "offsetmap": "events", "empty": "events", "nobranch": "events",
    "empties": "events", "many": "events", "leaflist": "events", "maps": "events", "deferred": None, "projected": None,
    "clusters": None, "kinds": None, "quantised": None, "unpacked": None, "variants": None, "nosums": None,
    "streamed": None, "emptytuple": None,
}  # fmt: skip
REFUSED = {"empty": "is empty", "nobranch": "is empty", "emptytuple": "is empty"}


def lists(n: int, most: int = 4) -> list[list[int]]:
    return [[k + i for k in range(i % most)] for i in range(n)]


def truth(kind: str) -> dict[str, list[Any]]:
    """Return the content of the branches for which there is a formula, as files_root.cpp fills them."""
    n = range(ENTRIES)
    if kind == "vectors":
        nested = [[[0.5 * k] * k for k in range(i % 3)] for i in n]
        return {
            "v_float": lists(ENTRIES),
            "v_int": lists(ENTRIES),
            "v_double": lists(ENTRIES),
            "vv_float": nested,
            "text": ["x" * (i % 5) for i in n],
        }
    if kind == "arrays":
        return {
            "n": [i % 4 for i in n],
            "pt": lists(ENTRIES),
            "id": lists(ENTRIES),
            "three": [[i, i + 1, i + 2] for i in n],
            "flag": [i % 3 == 0 for i in n],
        }
    if kind == "texts":
        return {
            "s": ["s" * (10 * i) for i in n],
            "ts": [f"t{i}" for i in n],
            "c": ["c" * (4 * i) for i in n],
            "vt": [["v"] * (i % 3) for i in n],
        }
    if kind == "doubles":  # 5 is on no grid point of [0, 100]: ROOT rounds to the nearest one
        grid = lambda x, bits: float(np.floor(x * 2**bits / 100 + 0.5)) / (2**bits / 100)  # noqa: E731
        halves = [0.5 * i for i in n]
        return {
            "x": halves,
            "y": [grid(x, 16) for x in halves],
            "z": halves,
            "f": halves,
            "g": [float(np.float32(grid(x, 10))) for x in halves],
            "list": [[grid(k, 16) for k in range(i % 4)] for i in n],
        }
    if kind == "packed":
        x = [float(-i if i % 2 else i) for i in n]
        shapes = {"d": (), "da": (3,), "dm": (2, 3), "db": (3,), "h": (), "hb": (), "h9": (), "ha": (3,), "hr": (3,)}
        listed = {"dl": (), "dlm": (2,), "dbl": (), "hl": (), "hm": (2, 3)}
        wide = (2.0**32 - 1) / 256  # for a range without a number of bits
        held = {"dw": [float(np.floor((v + 128) * wide + 0.5)) / wide - 128 for v in x]}
        held |= {name: [np.full(shape, v).tolist() for v in x] for name, shape in shapes.items()}
        return held | {
            name: [np.full((i % 4, *shape), v).tolist() for i, v in zip(n, x, strict=True)]
            for name, shape in listed.items()
        }
    if kind.startswith("packed-"):  # a file of ../shared/data/root
        return by_readme(kind, n)
    if kind == "variants":
        return {"v": [(i, 0.5 * i, "v")[i % 3] for i in n]}
    if kind == "doubled":
        return {"x": [float(i) for i in n], "x#2": [-i for i in n]}
    if kind == "embedded":
        return {"x": [float(i) for i in n], "v": lists(ENTRIES)}
    if kind == "tuples":
        return {"a": [float(i) for i in n], "b": [2.0 * i for i in n], "c": [-1.0 * i for i in n]}
    if kind == "tuplesd":
        return {"a": [float(i) for i in n], "b": [0.1 * i for i in n]}
    if kind in ("friends", "many", "empties"):
        return {"x": [float(i) for i in n]}
    if kind == "deferred":
        return {
            "x": [float(i) for i in n],
            "late": [0.0] * 40 + [float(i) for i in n][40:],
            "late_list": [[]] * 80 + lists(ENTRIES)[80:],
        }
    if kind == "projected":
        return {
            "pt": lists(ENTRIES),
            "alias": lists(ENTRIES),
            "x": [float(i) for i in n],
            "x_again": [float(i) for i in n],
        }
    if kind in ("clusters", "nosums", "unpacked"):
        return {"x": [float(i) for i in n], "v": lists(ENTRIES), "s": ["s" * (i % 4) for i in n]}
    if kind == "quantised":
        return {"x": [float(i) for i in n]}
    if kind == "ntuple":
        return {
            "x": [float(i) for i in n],
            "v": lists(ENTRIES),
            "vv": [[[k] * k for k in range(i % 3)] for i in n],
            "b": [i % 3 == 0 for i in n],
        }
    return {}


def by_readme(kind: str, n: range) -> dict[str, list[Any]]:
    """Return the content of the real files that uproot reads wrongly: formulas of their README, rounded like ROOT."""
    held = {
        16: lambda i: float(np.floor(i % 100 * 2**16 / 100 + 0.5)) / (2**16 / 100),
        10: lambda i: float(np.float32(np.floor(i % 100 * 2**10 / 100 + 0.5) / (2**10 / 100))),
        12: lambda i: float(i % 100),
        0: float,
    }
    forms: dict[str, dict[str, tuple[int, str]]] = {  # branch -> its bits, its dimensions; l: a list
        "packed-doubles": {
            "sc": (16, ""), "a1": (16, "3"), "l1": (16, "l"), "a2": (16, "23"), "l2": (16, "l2"),
            "sn": (12, ""), "an": (12, "3"), "f1": (10, "3"), "g1": (10, "l"),
        },
        "packed-plain": {"f0": (0, ""), "fb": (0, ""), "d0": (0, "")},
        "packed-jagged": {
            "f16": (16, "l23"), "d32": (16, "l2"), "fixd": (16, "23"), "d32p": (12, "l2"), "plain": (0, "l23"),
        },
    }  # fmt: skip
    out: dict[str, list[Any]] = {"n": [1 + i % 3 for i in n]}
    for name, (bits, form) in forms[kind].items():
        shapes = [tuple(1 + i % 3 if sign == "l" else int(sign) for sign in form) for i in n]
        out[name] = [np.full(shape, held[bits](i)).tolist() for i, shape in zip(n, shapes, strict=True)]
    if kind == "packed-plain":
        out |= {name: [[i + k for k in range(3)] for i in n] for name in ("f3", "d3")}
        out |= {name: [[i + k for k in range(1 + i % 3)] for i in n] for name in ("fn", "dn")}
    return out


def by_root(folder: Path) -> list[Case]:
    """Write the files. Raise ImportError if ROOT's wheel is not installed. End the program if ROOT fails."""
    if not wheels.has("ROOT"):
        raise ImportError("ROOT is not installed: storelab install root")
    done = subprocess.run(
        [sys.executable, __file__, str(folder)], capture_output=True, text=True, timeout=TIME_OUT_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"files_root.py failed:\n{done.stderr[-3000:]}")
    cases = [Case(folder / f"root-{kind}-{codec}.root", "events", truth(kind)) for kind in EACH for codec in CODECS]
    return cases + [
        Case(folder / f"root-{kind}.root", tree, truth(kind), REFUSED.get(kind, "")) for kind, tree in ONCE.items()
    ]


def main(folder: Path) -> None:
    import ROOT

    code = Path(__file__).with_suffix(".cpp").read_text()
    if not ROOT.gInterpreter.Declare(code):
        raise SystemExit("files_root.py: ROOT cannot compile files_root.cpp; see the messages above")
    for kind in EACH:
        for codec, number in CODECS.items():
            getattr(ROOT.made, kind)(
                str(folder / f"root-{kind}-{codec}.root"), ENTRIES, number and number + (4 if codec == "zstd" else 0)
            )
    for kind in ONCE:
        getattr(ROOT.made, kind)(str(folder / f"root-{kind}.root"), ENTRIES, CODECS["zlib"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
