"""Complete runs: visible retries, forbidden skips, a minimum number of passed tests, tests that hang."""

import subprocess
from types import SimpleNamespace

import pytest
from complete_run import MAX_FLAKY, problems
from paths import ROOT

pytest_plugins = ["pytester"]

FLAKY = """
import pytest

tries = []

@pytest.mark.real
@pytest.mark.parametrize("number", range({count}))
def test_flaky(number):
    tries.append(number)
    assert tries.count(number) == 2

def test_steady():
    pass
"""


PLUGINS = ("xdist.plugin", "pytest_rerunfailures", "pytest_timeout", "complete_run", "no:cacheprovider")

HANGS = """
import threading

def wait_for_nothing():
    threading.Event().wait()

def test_hangs():
    wait_for_nothing()

def test_next():
    pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Return a function that runs pytest with the plugin on a test file, in this process or in another one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "support"))
    pytester.makeini("[pytest]\nmarkers =\n    real: x\n    heavy: x\n    nightly: x\n")
    plugins = [word for name in PLUGINS for word in ("-p", name)]

    def run(source, *options, apart=False):
        pytester.makepyfile(test_it=source)
        call = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        return call(*plugins, *options)

    return run


def reports(count, **fields):
    return [SimpleNamespace(nodeid=f"test_{i}.py::test@group", when="call", **fields) for i in range(count)]


def test_second_tries_are_listed(run):
    done = run(FLAKY.format(count=2), "--complete")
    assert done.ret == pytest.ExitCode.OK
    done.stdout.fnmatch_lines(["FLAKY: test_it.py::test_flaky?0?, test_it.py::test_flaky?1?"])


def test_many_second_tries_fail(run):
    done = run(FLAKY.format(count=MAX_FLAKY + 1), "--complete")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert done.parseoutcomes() == {"passed": MAX_FLAKY + 2, "rerun": MAX_FLAKY + 1}


def test_unit_tests_have_no_second_try(run):
    done = run(FLAKY.format(count=1).replace("@pytest.mark.real", ""), "--complete")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert done.parseoutcomes() == {"passed": 1, "failed": 1}
    done.stdout.fnmatch_lines(["FLAKY: none"])


def test_lasting_failures_fail(run):
    source = "import pytest\n@pytest.mark.real\ndef test_it():\n    raise OSError\n"
    assert run(source, "--complete").parseoutcomes() == {"failed": 1, "rerun": 1}


def test_skips_fail_without_allowed_reason(run):
    source = "import pytest\ndef test_it():\n    pass\ndef test_skipped():\n    pytest.skip({reason!r})\n"
    for reason, code in (("no ceph", 1), ("hardware: no second disk", 0), ("privilege: needs root", 0)):
        done = run(source.format(reason=reason), "--complete")
        assert done.ret == code, reason
        assert (f"SKIPPED: {reason}" in done.outlines) == bool(code)


def test_ordinary_run_is_unaffected(run):
    done = run("import pytest\ndef test_it():\n    pytest.skip('no ceph')\n")
    assert done.ret == pytest.ExitCode.OK and "complete run" not in str(done.stdout)
    assert run(FLAKY.format(count=1)).parseoutcomes() == {"passed": 1, "failed": 1}


def test_too_few_passed_tests_fail(run):
    for minimum, code in ((1, 0), (2, 1)):
        for options in ([], ["--complete"]):
            assert run("def test_it():\n    pass\n", *options, f"--minimum-passed={minimum}").ret == code
    assert problems({"passed": reports(3)}, 3)[1] == []
    (message,) = problems({"passed": reports(3)}, 4)[1]
    assert "3 tests passed" in message and "4" in message


def test_nightly_tests_run_after_a_change_below_their_paths(run, pytester):
    source = "import pytest\ndef test_it():\n    pass\n@pytest.mark.nightly('src/a')\ndef test_long():\n    pass\n"
    assert run(source).parseoutcomes() == {"passed": 2}
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for name in ("src/ab/c", "src/a/b"):
        (pytester.path / name).parent.mkdir(parents=True)
        (pytester.path / name).write_text("1")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "a")):
        subprocess.run([*git, *command], cwd=pytester.path, check=True)
    since = ("--nightly-since", "HEAD")
    assert run(source, *since).parseoutcomes() == {"passed": 1, "deselected": 1}
    (pytester.path / "src/ab/c").write_text("2")
    assert run(source, *since).parseoutcomes() == {"passed": 1, "deselected": 1}
    (pytester.path / "src/a/b").write_text("2")
    assert run(source, *since).parseoutcomes() == {"passed": 2}
    assert run(source, "--nightly-since", "nowhere").ret == pytest.ExitCode.USAGE_ERROR


def test_only_calls_count_as_passed():
    setups = [SimpleNamespace(nodeid="a", when=when) for when in ("setup", "teardown")]
    assert problems({"passed": [*reports(2), *setups]}, 3)[1] != []


def test_second_tries_are_named_without_group():
    for count, fatal in ((MAX_FLAKY, 0), (MAX_FLAKY + 1, 1)):
        messages, found = problems({"rerun": reports(count) * 2}, 0)
        names = ", ".join(f"test_{i}.py::test" for i in range(count))
        assert messages[0] == f"FLAKY: {names}" and len(found) == fatal


def test_tests_of_a_file_share_a_process(run, pytester):
    source = (
        "import os\nimport pytest\n@pytest.mark.parametrize('n', range(20))\ndef test_it(n):\n    print(os.getpid())\n"
    )
    pytester.makepyfile(test_other=source)
    done = run(source, "-n2", "--dist", "loadgroup", "-rP", apart=True)
    done.assert_outcomes(passed=40)
    pids = [line for line in done.outlines if line.isdigit()]
    assert sorted(pids.count(pid) for pid in set(pids)) in ([20, 20], [40])


@pytest.mark.heavy
def test_second_tries_of_workers_are_listed(run):
    done = run(FLAKY.format(count=1), "--complete", "-n2", "--dist", "loadgroup", apart=True)
    assert done.ret == pytest.ExitCode.OK
    done.stdout.fnmatch_lines(["FLAKY: test_it.py::test_flaky?0?"])


def test_hanging_test_is_named_with_its_stack(run, pytestconfig):
    """The other tests continue, as with the time limit of pyproject.toml."""
    assert float(pytestconfig.getini("timeout")) > 0
    method = pytestconfig.getini("timeout_method")
    done = run(HANGS, "--timeout=0.3", f"--timeout-method={method}", apart=True)
    assert done.parseoutcomes() == {"passed": 1, "failed": 1}
    done.stdout.fnmatch_lines(["*in wait_for_nothing*", "*Timeout (>0.3s)*", "FAILED test_it.py::test_hangs*"])
