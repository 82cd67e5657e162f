#!/usr/bin/env python3
"""Checks that each header compiles alone, and twice in one file, without a warning, with g++ and
clang++; that it says which language it needs where it gets an older one; and that all of them together
pass through nvcc, where there is one."""

import os
import sys
import tempfile

import compilers


def check(header, compiler, includes):
    """What is wrong; None if nothing is."""
    command = [compiler, "-fsyntax-only", "-x", "c++", "-", *compilers.LANGUAGE, *compilers.WARNINGS]
    command += includes
    result = compilers.run(command, input='#include "%s"\n#include "%s"\n' % (header, header))
    if result.returncode != 0:
        return "%s, %s:\n%s" % (header, compiler, result.stdout)
    return None


def check_older(header, compiler, includes):
    """The first error that an older language gets is the one that says so."""
    command = [compiler, "-fsyntax-only", "-x", "c++", "-", "-std=c++17", "-Wfatal-errors", *includes]
    result = compilers.run(command, input='#include "%s"\n' % header)
    if result.returncode == 0 or "comm needs C++20" not in result.stdout:
        return "%s, %s -std=c++17: does not say that it needs C++20:\n%s" % (header, compiler, result.stdout)
    return None


def check_nvcc(headers, nvcc, includes):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "headers.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.writelines('#include "%s"\n' % header for header in headers)
        command = [nvcc, "-c", source, "-o", os.path.join(folder, "headers.o"), "-ccbin=g++"]
        command += [*compilers.LANGUAGE, "-Xcompiler=-Wall,-Wextra,-Werror", "-Werror=all-warnings"]
        # nvcc wants an equals sign in between.
        includes = [flag.replace("-isystem", "-isystem=", 1) for flag in includes]
        result = compilers.run(command + includes)
    if result.returncode != 0:
        return "%s:\n%s" % (nvcc, result.stdout)
    return None


def main():
    parser = compilers.arguments(__doc__)
    parser.add_argument("--nvcc", default="", help="the nvcc that was found, if one was")
    arguments = parser.parse_args()
    tools = arguments.compiler or compilers.COMPILERS
    compilers.require(*tools)
    cases = [(header, tool) for header in arguments.files for tool in tools]
    results = compilers.in_parallel(lambda case: check(*case, arguments.include), cases)
    results += compilers.in_parallel(lambda case: check_older(*case, arguments.include), cases)
    if arguments.nvcc:
        results.append(check_nvcc(arguments.files, arguments.nvcc, arguments.include))
    else:
        print("nvcc: none was found on this machine, so the headers were not tried with it")
    compilers.report(len(results), [result for result in results if result])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
