"""Progress lines: those that a terminal shows, and a log does not."""

from storelab.host import console


def test_begin_of_long_work_is_announced_in_a_terminal_only(capsys, monkeypatch):
    console.announce("one: making the tables")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    console.announce("one: making the tables")
    assert capsys.readouterr().err == "    one: making the tables\n"
