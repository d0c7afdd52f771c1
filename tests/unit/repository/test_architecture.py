"""Check rules about source files that no linter checks. import-linter checks the imports (`make lint`)."""

import ast
import re
from collections.abc import Iterator

from paths import ROOT

SOURCE = ROOT / "src" / "storelab"
MODULES = sorted(SOURCE.rglob("*.py"))
LAYERS = [p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"]
STARTERS = ("subprocess.run", "subprocess.Popen", "subprocess.check_output", "os.system")
# Programs that may outlive the process that starts them, and why.
OUTLIVING = {
    "stores/managed/daemons.py": "a store is up until `down`",
    "cli/quick.py": "it cleans up after its parent, and holds no keys",
    "stores/hdfs/store.py": "`down` finds the process that formats a name space by its log",
    "gang/testbed/pool.py": "a testbed is up until `down`",
    "install/debian.py": "a file that forbids services must be removed again",
    "analysis/latex/typeset.py": "the analysis imports only core; LaTeX ends by itself",
}


def test_documents_name_existing_source_files():
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("paper/**/*.tex")]
    named = re.compile(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)`|src/storelab/([a-z_0-9/]+(?:\.py)?)")
    missing = []
    for page in pages:
        if page.name in ("CHANGELOG.md", "extending.md"):  # past files, and files that the reader adds
            continue
        for match in named.finditer(page.read_text()):
            place = match[1] or match[2]
            if place.split("/")[0] in LAYERS and not (SOURCE / place).exists():
                missing.append(f"{page.relative_to(ROOT)}: {place}")
    assert not missing


def test_docstrings_name_existing_source_files():
    missing = []
    for path in MODULES:
        about = path.read_text().removeprefix('"""').partition('"""')[0]
        for place in re.findall(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+\.py)`", about):
            if not any((folder / place).exists() for folder in (SOURCE, ROOT, *path.parents)):
                missing.append(f"{path.relative_to(SOURCE)}: {place}")
    assert not missing


def starts_that_outlive(text: str) -> Iterator[int]:
    """Yield lines that start a program without `die_with_parent`: it survives when its parent is killed."""
    wrapped = "_ends_with_parent" in text  # wraps the command line in place of the option
    for node in ast.walk(ast.parse(text)) if any(name in text for name in STARTERS) else ():
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in STARTERS:
            continue
        call, argument = ast.unparse(node), node.args[0]
        if "die_with_parent" in call or "_ends_with_parent" in call:
            continue
        if not (wrapped and isinstance(argument, ast.Name) and argument.id == "command"):
            yield node.lineno


def test_started_programs_end_with_their_parent():
    """A program that survives may hold keys or write to a store."""
    found = {}
    for path in MODULES:
        if lines := [*starts_that_outlive(path.read_text())]:
            found[path.relative_to(SOURCE).as_posix()] = lines
    assert {name: lines for name, lines in found.items() if name not in OUTLIVING} == {}
    assert OUTLIVING.keys() <= found.keys(), "remove an exception that is not needed any more"
    assert [*starts_that_outlive("subprocess.run(['a'])")] == [1]
    assert not [*starts_that_outlive("subprocess.run(['a'], preexec_fn=die_with_parent())")]
