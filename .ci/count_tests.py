#!/usr/bin/env python3
"""Counts what a `bazel test` really ran, from the events it wrote (--build_event_json_file).

    count_tests.py EVENTS  ->  prints "passed failed", and each failure and left-out target in words

A doctest program counts its test cases, as its log says them; any other test is one. A test whose
log shows no case was run is a failure (a filter that matches nothing makes doctest succeed), and so
is what did not build, and a Bazel that failed for whatever else.
"""

import json
import re
import sys
from urllib.parse import unquote, urlparse

CASES = re.compile(r"\[doctest\] test cases: *(\d+) *\| *(\d+) passed *\| *(\d+) failed")


def count_log(text, passed):
    """(passed, failed, why) of one test with its log, given whether Bazel says that it passed."""
    summaries = [[int(n) for n in match.groups()] for match in CASES.finditer(text)]
    if not summaries:
        return (1, 0, "") if passed else (0, 1, "failed")
    ran, good, bad = (sum(column) for column in zip(*summaries))
    if ran == 0:
        return 0, 1, "ran no test case"
    if not passed and bad == 0:
        return good, 1, "failed outside of its test cases"
    return good, bad, "%d test cases failed" % bad if bad else ""


def read_log(result):
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.log":
            with open(unquote(urlparse(output["uri"]).path), encoding="utf-8", errors="replace") as log:
                return log.read()
    return ""


def count(events, read=read_log):
    """(passed, failed, [line]) of a whole run."""
    passed, failed, lines, tested, finished = 0, 0, [], set(), None
    for event in events:
        if "testResult" in event["id"]:
            label = event["id"]["testResult"]["label"]
            result = event["testResult"]
            good, bad, why = count_log(read(result), result["status"] == "PASSED")
            tested.add(label)
            passed, failed = passed + good, failed + bad
            if why:
                status = "" if result["status"] == "PASSED" else " (%s)" % result["status"]
                lines.append("FAILED: %s: %s%s" % (label, why, status))
        elif "targetCompleted" in event["id"]:
            label = event["id"]["targetCompleted"]["label"]
            if event.get("aborted", {}).get("reason") == "SKIPPED":
                lines.append("left out, this machine lacks what it needs: " + label)
            elif not event.get("completed", {}).get("success") and label not in tested:
                children = [child for child in event.get("children", []) if "testResult" in child]
                if not children:
                    failed += 1
                    lines.append("FAILED: %s: did not build" % label)
        elif "buildFinished" in event["id"]:
            finished = event["finished"].get("exitCode", {}).get("name")
    if finished != "SUCCESS" and failed == 0:
        failed += 1
        lines.append("FAILED: bazel itself: %s" % (finished or "did not finish"))
    return passed, failed, lines


def main():
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
    except (OSError, ValueError):
        events = []
    passed, failed, lines = count(events)
    print("\n".join(sorted(lines)), file=sys.stderr)
    print(passed, failed)


if __name__ == "__main__":
    main()
