#!/usr/bin/env python3
"""Checks what headers include, directly or not: no file whose path matches a forbidden pattern, as
the preprocessors of g++ and clang++ tell it.

The patterns are regular expressions; `thread` forbids <thread> as well as <bits/std_thread.h>.
"""

import re
import sys

import compilers

LINE_MARKER = re.compile(r'^# \d+ "([^"<]+)"', re.MULTILINE)


def files_included(header, compiler, includes):
    command = [compiler, "-E", "-x", "c++", "-", *compilers.LANGUAGE, *includes]
    result = compilers.run(command, input='#include "%s"\n' % header)
    if result.returncode != 0:
        raise RuntimeError(result.stdout)
    return list(dict.fromkeys(LINE_MARKER.findall(result.stdout)))


def check(header, compiler, includes, patterns):
    """What is wrong; None if nothing is."""
    try:
        files = files_included(header, compiler, includes)
    except RuntimeError as error:
        return "%s, %s: does not compile:\n%s" % (header, compiler, error)
    if not any(file.endswith(header) for file in files):
        return "%s, %s: not seen in the preprocessor's output" % (header, compiler)
    forbidden = [(file, pattern) for file in files for pattern in patterns if re.search(pattern, file)]
    if forbidden:
        lines = ["  %s (matches '%s')" % pair for pair in forbidden]
        return "%s, %s: includes\n%s" % (header, compiler, "\n".join(lines))
    return None


def main():
    parser = compilers.arguments(__doc__)
    parser.add_argument("--forbid", action="append", required=True, help="a regular expression")
    arguments = parser.parse_args()
    tools = arguments.compiler or compilers.COMPILERS
    compilers.require(*tools)
    cases = [(header, tool) for header in arguments.files for tool in tools]
    results = compilers.in_parallel(
        lambda case: check(*case, arguments.include, arguments.forbid), cases
    )
    compilers.report(len(cases), [result for result in results if result])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
