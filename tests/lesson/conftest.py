"""Prints how long each solved notebook ran."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    lines = [
        str(text)
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == "notebook seconds"
    ]
    if lines:
        terminalreporter.section("seconds per solved notebook")
        for line in dict.fromkeys(lines):
            terminalreporter.write_line(line)
