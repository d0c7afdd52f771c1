"""The text of the page: a template with marked places, and blocks of data that no text in them can leave.

Its figures are drawn by Vega and Vega-Lite: copies of their releases, with the licences of all that is bundled with
them, are in `vega/`.
"""

import base64
import gzip
import html
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = ("data.js", "charts.js", "tables.js", "views.js", "report.js")  # one after the other, in one module
FRAMED = ("data.js", "charts.js", "frame.js")  # the same for charts in another page
FRAME = """<!doctype html>
<html lang="en" data-theme="light"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; \
style-src 'unsafe-inline'; img-src data: blob:">
<style>{style}
main {{ min-height: 0; padding: 0; }}
.panels {{ grid-template-columns: repeat(auto-fill, minmax(min(100%, 290px), 1fr)); }}</style></head>
<body><main id="main"></main><div id="tip" hidden></div>
{blocks}
<script type="module">
{script}
</script></body></html>"""
PLACE = re.compile(r"<!--storelab:(\w+)-->|/\*storelab:(\w+)\*/")
PLAIN = ("head",)  # blocks that stand as they are, for whoever reads the source


def pack(text: str) -> str:
    """Deflated, in base64: what `DecompressionStream("deflate")` of a browser reads."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(packed: str) -> str:
    """The text that `pack` was given."""
    return zlib.decompress(base64.b64decode(packed)).decode()


def as_json(data: Any) -> str:
    """JSON that can stand in a page: no `<`, `>` or `&`, so that no text in it ends its block."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def block(name: str, data: Any) -> str:
    """One block of data."""
    if name in PLAIN:
        return f'<script type="application/json" data-block="{html.escape(name)}">{as_json(data)}</script>'
    return packed_block(name, pack(as_json(data)))


def packed_block(name: str, packed: str) -> str:
    return f'<script type="text/plain" data-block="{html.escape(name)}" data-packed="deflate">{packed}</script>'


@dataclass(frozen=True)
class Variant:
    """A page that is not a file: policy (what the browser may fetch besides), style and script of its own, what its
    foot says."""

    policy: str = ""
    style: str = ""
    script: str = ""
    foot: str = (
        "Made from the records of the campaign by <code>storelab report</code>. "
        "The page asks for nothing from the network."
    )


def filled(title: str, blocks: Mapping[str, Any], packed: Mapping[str, str], variant: Variant = Variant()) -> str:
    """The page with its style, its scripts, these blocks, and those that are packed already."""
    *scripts, last = [(HERE / name).read_text() for name in SCRIPTS]
    places = {
        "title": html.escape(title),
        "policy": variant.policy,
        "foot": variant.foot,
        "style": (HERE / "report.css").read_text() + variant.style,
        "script": "\n".join([*scripts, *filter(None, [variant.script]), last]),
        "blocks": "\n".join(
            [*(block(name, data) for name, data in blocks.items()), *(packed_block(*item) for item in packed.items())]
        ),
    }
    parts = PLACE.split((HERE / "page.html").read_text())
    # text, name of `<!--`, name of `/*`, text, …: only the template is searched, never what is put into it
    out = [parts[0]]
    for one, other, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        out += [places[one or other], text]
    return "".join(out)


def frame(figures: Mapping[str, Any], packed: Mapping[str, str]) -> str:
    """Return an `<iframe>` that draws these figures, as `charts.of` describes them, in any HTML page.

    packed: the libraries (`library.packed`). The frame contains all that it needs and fetches nothing.
    """
    document = FRAME.format(
        style=(HERE / "report.css").read_text(),
        blocks="\n".join([block("figures", figures), packed_block("library", packed["library"])]),
        script="\n".join((HERE / name).read_text() for name in FRAMED),
    )
    return f'<div><iframe style="width: 100%; border: 0" srcdoc="{html.escape(document)}"></iframe></div>'


def read(text: str) -> dict[str, Any]:
    """The blocks of data of a page, as they were given to `filled`; of `library` and `licences` the text."""
    found = re.findall(r'<script type="[^"]*" data-block="([^"]*)"( data-packed="deflate")?>([^<]*)</script>', text)
    plain = {html.unescape(name): unpack(body) if packed else body for name, packed, body in found}
    return {name: body if name in ("library", "licences") else json.loads(body) for name, body in plain.items()}


FOLDER = Path(__file__).with_name("vega")


@cache
def packed_libraries() -> dict[str, str]:
    """Name of a block -> packed text: `library` has both scripts, `licences` those of all that is in them."""
    scripts = (gzip.decompress((FOLDER / f"{name}.js.gz").read_bytes()).decode() for name in ("vega", "vega-lite"))
    return {"library": pack("\n;\n".join(scripts)), "licences": pack((FOLDER / "LICENCES.txt").read_text())}
