#!/usr/bin/env python3
"""Holds the tables of docs/nccl.md and docs/failures.md to the tests: each number is there once, in order,
and each test that a row names exists.

    named_tests.py DOCUMENT=LAST_NUMBER...

A row is `| number | ... | tests |`. It names doctest cases (`"text"`), methods of Python tests (`test_x`)
and targets (`//tests/folder:name`); one that names none says "no test:" and why.
"""

import glob
import os
import re
import sys

# In a test the working directory has only links to some of the sources.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LITERAL = r'"(?:[^"\\]|\\.)*"'
CASE = re.compile(r"\bTEST_CASE\w*\(\s*(?:[A-Za-z_]\w*\s*,\s*)?((?:%s\s*)+)" % LITERAL)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def cases():
    """The names of all doctest cases, pieces of a literal put together."""
    found = set()
    for pattern in ("tests/**/*.cc", "tests/**/*.h", "comm/testing/**/*.h", "examples/**/*.cc"):
        for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
            for match in CASE.finditer(read(path)):
                pieces = re.findall(LITERAL, match.group(1))
                found.add("".join(piece[1:-1] for piece in pieces).replace('\\"', '"'))
    return found


def methods():
    paths = glob.glob(os.path.join(ROOT, "tests/**/*.py"), recursive=True)
    return {name for path in paths for name in re.findall(r"\bdef (test_\w+)\(", read(path))}


def has_target(label):
    folder, _, name = label[2:].partition(":")
    path = os.path.join(folder, "BUILD.bazel")
    return os.path.exists(os.path.join(ROOT, path)) and 'name = "%s"' % name in read(path)


def check(document, last, exists):
    rows = re.findall(r"^\| (\d+) \|(.*)\|([^|]*)\|$", read(document), re.MULTILINE)
    numbers = [int(number) for number, _, _ in rows]
    if numbers != list(range(1, last + 1)):
        yield "%s: expected the rows 1 to %d in order, found %s" % (document, last, numbers)
    for number, text, tests in rows:
        named = re.findall(r"`([^`]+)`", tests)
        if not named and "no test: " not in text:
            yield '%s, row %s: it names no test, and does not say "no test: " and why' % (document, number)
        for name in named:
            if not exists(name):
                yield "%s, row %s: there is no test %s" % (document, number, name)


def main():
    known_cases, known_methods = cases(), methods()

    def exists(name):
        if name.startswith("//"):
            return has_target(name)
        return name[1:-1] in known_cases if name.startswith('"') else name in known_methods

    faults = []
    for argument in sys.argv[1:]:
        document, _, last = argument.partition("=")
        faults += check(document, int(last), exists)
    print("%d doctest cases, %d methods of Python tests" % (len(known_cases), len(known_methods)))
    print("\n".join(faults))
    sys.exit(1 if faults or not known_cases or len(sys.argv) < 2 else 0)


if __name__ == "__main__":
    main()
