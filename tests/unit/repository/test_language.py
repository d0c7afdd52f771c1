"""Check that prose has few phrases that only storelab uses. codespell checks single words (`make lint`)."""

import collections
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from paths import ROOT

BUDGET, MIN_WORDS = 10 / 10_000, 5000  # per top folder; smaller ones count as this many words
# Phrases, and words that codespell cannot refuse, because they have another meaning too or are names in code.
PHRASES = re.compile(
    r"\b(told|tells?|telling|beside|anew|bears?|bore|stands?|stood|lies?|lay|nobody|no\sone|mend(s|ed|ing)?|people'?s?"
    r"|so\s(many|much)|as\smany\s(each|of)|of\s(its|their|his|your)\sown|(?<!there\s)(is|are|was|were)\sno|alone"
    r"|rest(s|ed|ing)?\son|such\sas\swere|those\sthat\sare\sleft|needs\sit\snot|came?\sto\sbe|comes?\sabout"
    r"|by\s(wish|hand's)|who\s(wants|asks|needs|knows|reads|looks))\b",
    re.I,
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
SEALED = ("results/", "tests/data/", "benchmarks/results/", "CHANGELOG")
WHOLE = (".md", ".rst", ".tex", ".html", ".ipynb", ".yaml", ".yml")
CODE = (".py", ".go", ".js", ".cpp", ".smk", ".sh", ".toml", "Makefile", "Snakefile", "run")
STRING_OR_COMMENT = re.compile(r'"""([\s\S]*?)"""|"((?:[^"\\\n]|\\.)*)"|(?<!\S)(?:#+|//)(.*)')


def prose(path: Path) -> Iterator[str]:
    """Yield the prose of a file: its whole text, or its comments and the strings with a space."""
    if path.name.endswith(WHOLE):
        yield path.read_text()
    elif path.name.endswith(CODE):
        for groups in STRING_OR_COMMENT.findall(path.read_text()):
            yield from (text for text in groups if " " in text)


def test_prose_has_few_dialect_phrases():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    words, found = collections.Counter(), collections.defaultdict(list)
    for name in listed.splitlines():
        top = name.split("/")[0] if "/" in name else "."
        for text in prose(ROOT / name) if not name.startswith(SEALED) and (ROOT / name).is_file() else ():
            words[top] += len(WORD.findall(text))
            found[top] += [f"{name}: {text[max(0, m.start() - 40) : m.end() + 40]!r}" for m in PHRASES.finditer(text)]
    over = [top for top, lines in found.items() if len(lines) > BUDGET * max(words[top], MIN_WORDS)]
    too_many = [line for top in over for line in found[top]]
    assert not too_many, "\n".join(too_many)
