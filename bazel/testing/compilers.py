"""What the compile-time tests share: finding the compilers and running them.

A tool that is missing is an error, never a reason to skip: a test that silently checks with one
compiler of two says less than its name.
"""

import argparse
import concurrent.futures
import shutil
import subprocess
import sys

COMPILERS = ("g++", "clang++")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
LANGUAGE = ["-std=c++20"]


def arguments(description):
    """A parser for what //bazel:testing.bzl passes to every test of this kind."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--include", action="append", default=[], help="a flag such as -Ifolder")
    parser.add_argument("--compiler", action="append", help="instead of g++ and clang++")
    parser.add_argument("files", nargs="+")
    return parser


def require(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        sys.exit("FAILED: not installed: %s (./bazelw installs them)" % ", ".join(missing))


def run(command, **kwargs):
    """Runs a command; its output, both streams together, is in `.stdout`."""
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=240,
        check=False,
        **kwargs,
    )


def in_parallel(function, items):
    """[function(item) for item in items], two at a time."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(function, items))


def report(checked, failures):
    """Ends the test: prints each failure, and what was checked. Nothing checked is a failure too."""
    for failure in failures:
        print("FAILED: " + failure.rstrip() + "\n")
    print("%d checked, %d failed" % (checked, len(failures)))
    if checked == 0:
        print("FAILED: nothing was checked")
    sys.exit(1 if failures or checked == 0 else 0)
