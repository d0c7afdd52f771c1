"""Verdicts on servers with quirks, with and without a reason that explains them."""

import quirky_s3


def test_reasons_that_name_no_quirk_are_found():
    found = {
        ("one", "get"): {"none": "", "busy": "SlowDown", "range ignored": "", "no 100 Continue": ""},
        ("two", "get"): {"none": "no", "busy": "KeyError: 'x'", "range ignored": "a range", "no 100 Continue": "hung"},
    }
    wrong = ["two get, none: no", "two get, busy: KeyError: 'x'", "two get, no 100 Continue: hung"]
    assert quirky_s3.disagreeing(found) == wrong
