#!/usr/bin/env python3
"""Checks that two source files give the same object code: with every compiler, at -O1, -O2 and -O3,
the same instructions in the same functions, the same sections of the same sizes, and the same
symbols, defined and undefined. What it cannot compare it does not pass.

Both files define functions of the same names; one says in terms of comm what the other says without.
"""

import difflib
import os
import re
import sys
import tempfile

import compilers

LEVELS = ("-O1", "-O2", "-O3")
# Fillers between functions and before loops: alignment, not work.
PADDING = re.compile(r"\t((data16 |cs )*nop[wl]?\b.*|xchg +%ax,%ax|int3)\s*$")


def tool(*command):
    result = compilers.run(list(command))
    if result.returncode != 0:
        raise RuntimeError("%s failed:\n%s" % (" ".join(command), result.stdout))
    return result.stdout.splitlines()


def disassembly(object_file):
    """Function names, instructions and relocations, without addresses and padding."""
    lines = []
    for line in tool("objdump", "-dr", "--no-show-raw-insn", object_file):
        if "file format" in line or not line.strip() or PADDING.search(line):
            continue
        lines.append(re.sub(r"^ *[0-9a-f]+:?\s*", "", line))
    return lines


def sections(object_file):
    """Each section that is loaded when the program runs, with its size; code sections by name alone,
    since padding counts in their size."""
    lines = []
    for line in tool("objdump", "-hw", object_file):
        fields = line.split()
        if "ALLOC" in line:
            size = "" if "CODE" in line else ", %d bytes" % int(fields[2], 16)
            lines.append(fields[1] + size)
    return sorted(lines)


def symbols(object_file):
    """Each symbol with its kind (nm's letter): "T decode_step", "U memcpy". An undefined one counts
    if anything refers to it: clang++ names __gxx_personality_v0 for a function whose clean-ups it
    has then optimized away, and nothing in the object refers to it any more."""
    relocations = [line.split() for line in tool("objdump", "-rw", object_file)]
    used = {re.sub(r"[-+]0x[0-9a-f]+$", "", r[2]) for r in relocations if len(r) == 3}
    found = [line.split()[-2:] for line in tool("nm", object_file)]
    return sorted("%s %s" % (kind, name) for kind, name in found if kind != "U" or name in used)


def describe(source, compiler, level, includes, folder):
    object_file = os.path.join(folder, "object.o")
    # Both are compiled under one name: a file's name must not be what differs.
    command = [compiler, "-c", "-x", "c++", "-", "-o", object_file, level]
    command += [*compilers.LANGUAGE, *compilers.WARNINGS, *includes]
    with open(source, encoding="utf-8") as file:
        result = compilers.run(command, stdin=file)
    if result.returncode != 0:
        raise RuntimeError("%s does not compile:\n%s" % (source, result.stdout))
    return {
        "instructions": disassembly(object_file),
        "sections": sections(object_file),
        "symbols": symbols(object_file),
    }


def check(left, right, compiler, level, includes):
    """What differs; None if nothing does."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            one, other = (
                describe(source, compiler, level, includes, folder) for source in (left, right)
            )
    except RuntimeError as error:
        return "%s %s: %s" % (compiler, level, error)
    if not any(line.endswith(">:") for line in one["instructions"]):
        return "%s %s: %s has no function to compare" % (compiler, level, left)
    for what in one:
        if one[what] != other[what]:
            difference = difflib.unified_diff(one[what], other[what], left, right, lineterm="")
            return "%s %s: %s differ:\n%s" % (compiler, level, what, "\n".join(difference))
    return None


def main():
    parser = compilers.arguments(__doc__)
    arguments = parser.parse_args()
    if len(arguments.files) != 2:
        parser.error("two source files are compared, not %d" % len(arguments.files))
    tools = arguments.compiler or compilers.COMPILERS
    compilers.require(*tools, "objdump", "nm")
    cases = [(compiler, level) for compiler in tools for level in LEVELS]
    results = compilers.in_parallel(
        lambda case: check(*arguments.files, *case, arguments.include), cases
    )
    compilers.report(len(cases), [result for result in results if result])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
