#!/usr/bin/env python3
"""Checks that wrong code does not compile, and that the compiler says why.

A source file has sections, each between `#ifdef FAIL_<name>` and its `#endif`. Without any section
it must compile: that is the control. With one section it must not, and each line marked in it

    communicator.all_reduce(strings);  // EXPECT: only arithmetic elements can be reduced
    // EXPECT: only arithmetic elements can be reduced       (where it is long: on the line before)

must have a compile *error* that leads to that line and has that text, in the error itself or in the
notes that explain it. A warning does not count, not even one that -Werror made an error: what the
language leaves at a warning (a `[[nodiscard]]` value that is dropped) is marked `// WARN: text`, and
then only a warning counts. `EXPECT(g++):` and `EXPECT(clang++):` hold for one compiler only. Every
section runs with every compiler.
"""

import re
import sys
import typing

import compilers

# No echo of the source: the text beside the bad line would match itself.
FLAGS = {
    "g++": ["-fno-diagnostics-show-caret", "-fconcepts-diagnostics-depth=3"],
    "clang++": ["-fno-caret-diagnostics", "-ferror-limit=0"],
}
SECTION = re.compile(r"^\s*#\s*ifdef\s+(FAIL_\w+)\s*$")
EXPECT = re.compile(
    r"^(?P<code>.*?)//\s*(?P<kind>EXPECT|WARN)(\((?P<compiler>[^)]+)\))?:\s*(?P<text>.*\S)\s*$"
)


class Expectation(typing.NamedTuple):
    line: int
    kind: str  # EXPECT or WARN
    compiler: typing.Optional[str]  # None: every one
    text: str


class Malformed(Exception):
    """The source file is not what this test can read."""


def sections(text):
    """{section: [Expectation]} of a source file."""
    found, current, depth, waiting = {}, None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if current is None:
            opening = SECTION.match(line)
            if opening:
                current, depth = opening.group(1), 1
                if current in found:
                    raise Malformed("line %d: %s is there twice" % (number, current))
                found[current] = []
            elif EXPECT.match(line):
                raise Malformed("line %d: EXPECT outside of a section" % number)
            continue
        if re.match(r"^\s*#\s*if", line):
            depth += 1
        elif re.match(r"^\s*#\s*endif", line):
            depth -= 1
            if depth == 0:
                if waiting or not found[current]:
                    raise Malformed("%s: no line is marked EXPECT or WARN" % current)
                current = None
            continue
        expected = EXPECT.match(line)
        if expected:
            waiting.append(expected)
        if not expected or expected.group("code").strip():
            found[current] += [
                Expectation(number, mark.group("kind"), mark.group("compiler"), mark.group("text"))
                for mark in waiting
            ]
            waiting = []
    if current is not None:
        raise Malformed("%s: no #endif" % current)
    if not found:
        raise Malformed("no section (#ifdef FAIL_...)")
    return found


def diagnostics(output):
    """[(kind, text)] of a compiler's output: each error and warning with the lines that belong to it
    ("In instantiation of" before, notes after). Kind is EXPECT for an error, WARN for a warning, also
    for one that -Werror made an error."""
    blocks, before = [], []
    for line in output.splitlines():
        match = re.search(r":\d+:(\d+:)? (fatal )?(error|warning|note): ", line)
        if match and match.group(3) != "note":
            is_error = match.group(3) == "error" and "[-Werror" not in line
            blocks.append(("EXPECT" if is_error else "WARN", before + [line]))
            before = []
        elif blocks and (match or "required for the satisfaction" in line):
            blocks[-1][1].extend(before + [line])
            before = []
        else:  # How the compiler got to the diagnostic that follows.
            before.append(line)
    return [(kind, "\n".join(lines)) for kind, lines in blocks]


def check(source, includes, compiler, section, expectations):
    """What is wrong with one section; None if nothing is."""
    command = [compiler, "-fsyntax-only", source, *compilers.LANGUAGE, *compilers.WARNINGS]
    command += FLAGS[compiler] + includes
    what = "%s, %s" % (section or "the control", compiler)
    result = compilers.run(command + (["-D" + section] if section else []))
    if section is None:
        return what + ": must compile:\n" + result.stdout if result.returncode != 0 else None
    if result.returncode == 0:
        return what + ": compiled, but must not"
    found = diagnostics(result.stdout)
    for expected in expectations:
        if expected.compiler not in (None, compiler):
            continue
        place = "%s:%d:" % (source, expected.line)
        if not any(
            kind == expected.kind and expected.text in text and place in text for kind, text in found
        ):
            noun = "error" if expected.kind == "EXPECT" else "warning"
            return "%s: no %s leads to line %d with the text '%s':\n%s" % (
                what,
                noun,
                expected.line,
                expected.text,
                result.stdout,
            )
    return None


def main():
    arguments = compilers.arguments(__doc__).parse_args()
    tools = arguments.compiler or compilers.COMPILERS
    compilers.require(*tools)
    failures, cases = [], []
    for source in arguments.files:
        try:
            with open(source, encoding="utf-8") as file:
                found = sections(file.read())
        except Malformed as error:
            failures.append("%s: %s" % (source, error))
            continue
        cases += [
            (source, arguments.include, tool, section, expectations)
            for tool in tools
            for section, expectations in [(None, []), *found.items()]
        ]
    failures += [failure for failure in compilers.in_parallel(lambda case: check(*case), cases) if failure]
    compilers.report(len(cases), failures)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
