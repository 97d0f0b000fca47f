"""Does each alert fire when it should, and stay silent when it should?"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.deploy_files import ALERT_TESTS, DEPLOY

pytestmark = pytest.mark.timeout(300)

RULES = DEPLOY / "observability/alerts.yml"
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool (apt-get install prometheus)"
)


def rules() -> dict[str, dict[str, Any]]:
    """All alerts by name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def cases() -> list[dict[str, Any]]:
    """All tests of them."""
    found: list[dict[str, Any]] = yaml.safe_load(ALERT_TESTS.read_text())["tests"]
    return found


def failures(folder: Path, expr: str) -> int:
    """How many tests fail if all alerts have this condition, at once."""
    text = yaml.safe_load(RULES.read_text())
    for group in text["groups"]:
        for rule in group["rules"]:
            rule["expr"] = expr
            rule.pop("for", None)
    (folder / "alerts.yml").write_text(yaml.safe_dump(text))
    asked = yaml.safe_load(ALERT_TESTS.read_text()) | {"rule_files": ["alerts.yml"]}
    (folder / "tests.yml").write_text(yaml.safe_dump(asked))
    done = subprocess.run(
        ["promtool", "test", "rules", str(folder / "tests.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).count("expr: ")


@pytest.mark.parametrize("alert", rules())
def test_an_alert_is_tested_both_ways(alert: str) -> None:
    """One test in which it fires, and one in which it stays silent."""
    samples = [
        bool(test["promql_expr_test"][0]["exp_samples"])
        for test in cases()
        if f'alertname="{alert}"' in test["promql_expr_test"][0]["expr"]
    ]
    assert sorted(samples) == [False, True]


@needs_promtool
def test_the_tests_pass() -> None:
    """As promtool sees it."""
    subprocess.run(["promtool", "test", "rules", str(ALERT_TESTS)], check=True, capture_output=True)


@needs_promtool
def test_each_test_can_fail(tmp_path: Path) -> None:
    """An alert that never fires fails the one, an alert that always fires the other."""
    assert failures(tmp_path, "vector(0) > 1") == len(rules())
    assert failures(tmp_path, "vector(1)") == len(rules())


@pytest.mark.parametrize("alert", rules())
def test_an_alert_says_what_is_the_matter(alert: str) -> None:
    """How bad it is, a sentence, and what follows."""
    rule = rules()[alert]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description"}
