"""Fill the template of the page with blocks of data. No text in the data can end its block.

Vega and Vega-Lite draw the figures. Copies of their releases are in `vega/`, with the licences of all bundled software.
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
SCRIPTS = ("data.js", "charts.js", "tables.js", "views.js", "report.js")  # these files are concatenated to one module
FRAMED = ("data.js", "charts.js", "frame.js")  # scripts for charts in another page
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
PLAIN = ("head",)  # blocks that are not packed, so that the source of the page shows what it is about


def pack(text: str) -> str:
    """Return a text compressed by deflate and encoded in base64. Browsers read it with `DecompressionStream`."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(packed: str) -> str:
    """Return the text from the result of `pack`."""
    return zlib.decompress(base64.b64decode(packed)).decode()


def as_json(data: Any) -> str:
    """Return JSON in which `<`, `>` and `&` are escaped, so that no text in it can end its block."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def block(name: str, data: Any) -> str:
    """Return the HTML element that contains a block of data. It is packed, except for the blocks PLAIN."""
    if name in PLAIN:
        return f'<script type="application/json" data-block="{html.escape(name)}">{as_json(data)}</script>'
    return packed_block(name, pack(as_json(data)))


def packed_block(name: str, packed: str) -> str:
    """Return the HTML element that contains a packed block of data.

    name: the name by which the scripts of the page find the block; packed: the result of `pack`.
    """
    return f'<script type="text/plain" data-block="{html.escape(name)}" data-packed="deflate">{packed}</script>'


@dataclass(frozen=True)
class Variant:
    """A variant of the page that is served instead of written to a file.

    policy: further sources that the browser is allowed to load; style, script: additional CSS and JavaScript; foot:
    text of the footer.
    """

    policy: str = ""
    style: str = ""
    script: str = ""
    foot: str = (
        "Made from the records of the campaign by <code>storelab report</code>. "
        "The page loads nothing from the network."
    )


def filled(title: str, blocks: Mapping[str, Any], packed: Mapping[str, str], variant: Variant = Variant()) -> str:
    """Return the page as HTML.

    blocks: name of a block -> data; packed: name of a block -> data that is already packed (`pack`).
    """
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
    # The parts are: text, name in `<!-- -->`, name in `/* */`, text, and so on. Only the template is searched for
    # names, not the inserted texts.
    out = [parts[0]]
    for one, other, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        out += [places[one or other], text]
    return "".join(out)


def frame(figures: Mapping[str, Any], packed: Mapping[str, str]) -> str:
    """Return an `<iframe>` that draws figures in any HTML page. It does not load anything.

    figures: the result of `charts.charts_of_plan`; packed: the libraries (`packed_libraries`).
    """
    document = FRAME.format(
        style=(HERE / "report.css").read_text(),
        blocks="\n".join([block("figures", figures), packed_block("library", packed["library"])]),
        script="\n".join((HERE / name).read_text() for name in FRAMED),
    )
    return f'<div><iframe style="width: 100%; border: 0" srcdoc="{html.escape(document)}"></iframe></div>'


def read(text: str) -> dict[str, Any]:
    """Return the blocks of data of a page: name -> data, or text for `library` and `licences`. text: the HTML."""
    found = re.findall(r'<script type="[^"]*" data-block="([^"]*)"( data-packed="deflate")?>([^<]*)</script>', text)
    plain = {html.unescape(name): unpack(body) if packed else body for name, packed, body in found}
    return {name: body if name in ("library", "licences") else json.loads(body) for name, body in plain.items()}


FOLDER = Path(__file__).with_name("vega")


@cache
def packed_libraries() -> dict[str, str]:
    """Return the packed blocks `library` (both scripts) and `licences` (of all bundled software)."""
    scripts = (gzip.decompress((FOLDER / f"{name}.js.gz").read_bytes()).decode() for name in ("vega", "vega-lite"))
    return {"library": pack("\n;\n".join(scripts)), "licences": pack((FOLDER / "LICENCES.txt").read_text())}
