"""Claims of a campaign: read from its configuration, kept in its plan, refused with place and value."""

import math
import re
from datetime import date

import pytest
import yaml
from paths import ROOT
from pydantic import ValidationError
from refusals import refusal

from storelab.analysis.records import published as findings
from storelab.analysis.statistics import judging
from storelab.core import plan as planning
from storelab.core.campaign.claims import NEEDS, Claim
from storelab.stores import config
from storelab.workloads import WORKLOADS

PAGE = (ROOT / "docs" / "claims.md").read_text()
MINE = yaml.safe_load(re.search(r"```yaml\n(claims:.*?)```", PAGE, re.S)[1])["claims"]


def planned(name="fast", campaign="reference", **change):
    found = MINE[next(iter(MINE))] | change
    settings = config.load(ROOT / "config.yaml", overrides={"campaign": campaign, "claims": {name: found}})
    points = planning.make(settings, WORKLOADS)
    return planning.to_json(settings, points, WORKLOADS)


def test_documented_claim_is_in_the_plan_and_judged_first():
    plan = planned("ours")
    assert list(plan["claims"]) == ["ours"] and next(iter(findings.claims_of(plan))) == "ours"
    assert len(findings.claims_of(plan)) == len(findings.findings()) + 1
    plain = config.load(ROOT / "config.yaml")
    assert "claims" not in planning.to_json(plain, planning.make(plain, WORKLOADS), WORKLOADS)


def test_mistakes_are_one_line_with_place_and_value():
    """Changes to the claim `fast`; place of the error, and what it names."""
    mistakes = [
        ({"table": "throughputs"}, "claims.fast.table", ["'throughputs'", "'throughput'"]),
        ({"table": "verdicts"}, "claims.fast.table", ["'verdicts'"]),
        ({"metric": "speed"}, "claims.fast.metric", ["'speed'"]),
        ({"where": {"colour": 1}}, "claims.fast.where", ["'colour'"]),
        ({"where": {"workload": "gett"}}, "claims.fast.where.workload", ["'gett'"]),
        ({"where": {"clients": "many"}}, "claims.fast.where.clients", []),
        ({"where": {"clients": ">= ²"}}, "claims.fast.where.clients", ["'²'", "whole number"]),
        ({"where": {"clients": f">= {'9' * 5000}"}}, "claims.fast.where.clients", ["whole number"]),
        ({"where": {"store": math.nan}}, "claims.fast.where.store", ["nan"]),
        ({"where": {"store": [date(2026, 11, 29)]}}, "claims.fast.where.store", ["datetime.date(2026, 11, 29)"]),
        ({"where": {"store": {"a": 1}}}, "claims.fast.where.store", ["{'a': 1}"]),
        ({"reach": {"store": math.inf}}, "claims.fast.reach.store", ["inf"]),
        ({"reach": {"colour": 1}}, "claims.fast.reach", ["'colour'"]),
        ({"reach": {"clients": "many"}}, "claims.fast.reach.clients", []),
        ({"below_link": 80}, "claims.fast", ["`level`", "`below_link`"]),
        ({"below_link": 120}, "claims.fast.below_link", ["120"]),
        ({"about": "files"}, "claims.fast.about", ['"files"']),
        ({"campaigns": ["elsewhere"]}, "claims.fast.campaigns", ["'elsewhere'"]),
        ({"tabel": "sparse"}, "claims.fast.tabel", ["'tabel'", "'table'"]),
        ({"rule": "level", "at_least": None}, "claims.fast", ["`level`", "`at_least`", "`at_most`"]),
        ({"at_most": 2}, "claims.fast", ["`at_least`", "`at_most`"]),
        ({"values": [1, 2]}, "claims.fast", ["`level`", "`values`"]),
        ({"published": {"value": 1, "table": "uds_headlines"}}, "claims.fast.published", ["value", "table"]),
        ({"published": {"table": "uds_headlines"}}, "claims.fast.published.table", []),
    ]
    for change, place, values in mistakes:
        message = refusal(planned, **change)
        assert [value for value in (f"{place}: ", *values) if value not in message] == [], (change, message)
    assert "Our Claim" in refusal(planned, "Our Claim")


def test_values_fit_the_rule():
    content = {
        "statement": "x",
        "source": "y",
        "table": "throughput",
        "metric": "rate",
        "along": "clients",
        "values": [1],
    }
    for rule in (
        {"rule": "ratio", "at_least": 2},
        {"rule": "ratio", "at_least": 2, "values": ["each"]},
        {"rule": "order"},
    ):
        with pytest.raises(ValidationError):
            Claim.model_validate(content | rule)


def test_documentation_names_rules_and_verdicts():
    quoted = set(re.findall(r"`([^`\n]+)`", PAGE))
    assert set(NEEDS) | {"claims.csv"} <= quoted
    assert all(f"*{verdict}*" in PAGE for verdict in judging.VERDICTS)
