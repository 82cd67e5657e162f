"""Compiles C++ snippets: a whole file as it is, a fragment as declarations or inside a function that
knows the names of prelude.h. A status that a snippet drops is an error, as in code of users."""

import re
import subprocess

PRELUDE = "tests/docs/prelude.h"
INCLUDES = "tests/docs/headers.includes"
COMPILERS = ("g++", "clang++")

# What a fragment may be, and what it is put into then. The first that compiles will do.
FRAMES = {
    "a file": "{code}",
    "declarations": '#include "%s"\n{includes}\n{rest}' % PRELUDE,
    "statements": '#include "%s"\n{includes}\ncomm::Status snippet(SNIPPET_NAMES) {{\n{rest}\nreturn {{}};\n}}\n'
    % PRELUDE,
    "statements of main": '#include "%s"\n{includes}\nint snippet(SNIPPET_NAMES) {{\n{rest}\nreturn 0;\n}}\n'
    % PRELUDE,
}


def include_flags():
    """From the file that cc_headers in headers.bzl wrote."""
    with open(INCLUDES, encoding="utf-8") as file:
        return ["-I" + folder for folder in file.read().split()]


def errors_of(compiler, source):
    """What the compiler says against it; empty if nothing."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Werror=unused-result", "-x", "c++", "-"]
    result = subprocess.run(
        command + include_flags(),
        input=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return result.stdout if result.returncode != 0 else ""


def framed(code):
    """The sources that a snippet may stand for, by what it is then."""
    if re.search(r"\bint main\(", code):
        return {"a file": code}
    includes = "\n".join(re.findall(r"^#include .*$", code, flags=re.MULTILINE))
    rest = re.sub(r"^#(include .*|pragma once)$", "", code, flags=re.MULTILINE)
    return {
        kind: frame.format(code=code, includes=includes, rest=rest)
        for kind, frame in FRAMES.items()
    }


def check(snippet):
    """What is wrong with it; empty if nothing."""
    first, *others = COMPILERS
    complaints = []
    for kind, source in framed(snippet.code).items():
        errors = errors_of(first, source)
        if not errors:
            problems = ((compiler, errors_of(compiler, source)) for compiler in others)
            return "\n".join("%s refuses it:\n%s" % p for p in problems if p[1])
        complaints.append("as %s:\n  %s" % (kind, "\n  ".join(errors.splitlines()[:6])))
    return "%s refuses it\n%s" % (first, "\n".join(complaints))
