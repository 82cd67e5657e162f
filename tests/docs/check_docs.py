#!/usr/bin/env python3
"""Holds the documents to the tree: every snippet compiles, runs or parses, every link leads to a file.

    check_docs.py --bazelrc=FILE [--label=//some:target]... [--no-nccl] DOCUMENT...
"""

import argparse
import concurrent.futures
import json
import os
import sys

import cpp_snippets
import shell_snippets
import snippets


def check_starlark(snippet):
    """BUILD and .bzl files are Python as far as syntax goes; only the syntax is checked."""
    try:
        compile(snippet.code, snippet.place, "exec")
    except SyntaxError as error:
        return str(error)
    return ""


def check_json(snippet):
    try:
        json.loads(snippet.code)
    except ValueError as error:
        return str(error)
    return ""


def checks(arguments, bazelrc):
    """What is done with a snippet, by the language that it says it is in."""
    shell = lambda snippet: shell_snippets.check(snippet, set(arguments.label), bazelrc)
    return {
        "cpp": cpp_snippets.check,
        "sh": shell,
        "starlark": check_starlark,
        "python": check_starlark,
        "json": check_json,
        "text": lambda snippet: "",  # What a program prints, and drawings.
    }


def check_links(document, text):
    folder = os.path.dirname(document)
    for target in snippets.links_of(text):
        path = os.path.normpath(os.path.join(folder, target))
        if not os.path.exists(path):
            yield "%s: the link to %s leads nowhere" % (document, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bazelrc", required=True)
    parser.add_argument("--label", action="append", default=[], help="a target that exists")
    parser.add_argument("--no-nccl", action="store_true", help="this machine lacks CUDA or NCCL")
    parser.add_argument("documents", nargs="+")
    arguments = parser.parse_args()
    with open(arguments.bazelrc, encoding="utf-8") as file:
        kinds = checks(arguments, file.read())

    found = []
    failures = []
    for document in arguments.documents:
        with open(document, encoding="utf-8") as file:
            text = file.read()
        failures += check_links(document, text)
        try:
            found += snippets.snippets_of(document, text)
        except ValueError as error:
            failures.append(str(error))

    # Said, not hidden: machines that have CUDA compile these too.
    needs_nccl = [s for s in found if s.language == "cpp" and "nccl" in s.code.lower()]
    if arguments.no_nccl:
        print("not compiled, since NCCL is not here: " + ", ".join(s.place for s in needs_nccl))
        found = [s for s in found if s not in needs_nccl]

    def check(snippet):
        if snippet.language not in kinds:
            return "'%s' is no kind of snippet; use one of: %s" % (
                snippet.language,
                ", ".join(kinds),
            )
        return kinds[snippet.language](snippet)

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        problems = list(pool.map(check, found))
    failures += ["%s: %s" % (s.place, p) for s, p in zip(found, problems) if p]
    for failure in failures:
        print("FAILED: %s\n" % failure.rstrip())
    print(
        "%d documents, %d snippets, %d failures"
        % (len(arguments.documents), len(found), len(failures))
    )
    sys.exit(1 if failures or not found else 0)


if __name__ == "__main__":
    main()
