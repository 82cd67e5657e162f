#!/usr/bin/env python3
"""codegen.py, preprocess.py and headers.py themselves: that they fail whenever they should."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
PROGRAMS = "bazel/testing"
sys.path.insert(0, PROGRAMS)
import codegen  # noqa: E402
import headers  # noqa: E402
import preprocess  # noqa: E402

PLAIN = "int f(int x) { return x * 3; }\n"


class HarnessTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def differences(self, left, right):
        """What codegen.py says of two sources, for each compiler."""
        pair = (self.file("left.cc", left), self.file("right.cc", right))
        return [codegen.check(*pair, compiler, "-O2", []) for compiler in ("g++", "clang++")]

    def assert_differ(self, left, right, text):
        for found in self.differences(left, right):
            self.assertIsNotNone(found)
            self.assertIn(text, found)

    def test_codegen_passes_what_compiles_to_nothing(self):
        empty = "struct Empty { constexpr int id(int x) const { return x; } };\n"
        with_it = empty + "int f(int x) { return Empty().id(x) * 3; }\n"
        self.assertEqual(self.differences(PLAIN, with_it), [None, None])

    def test_codegen_does_not_count_padding(self):
        one = "void g();\n__attribute__((aligned(64))) void f() { g(); g(); }\n"
        self.assertEqual(
            self.differences(one + "void h() { g(); }\n", one + "void h() { g(); }\n"), [None, None]
        )
        self.assertTrue(codegen.PADDING.search("   9:\tnopw   0x0(%rax,%rax,1)"))
        self.assertTrue(codegen.PADDING.search("   9:\tdata16 cs nopw 0x0(%rax,%rax,1)"))
        self.assertFalse(codegen.PADDING.search("   9:\tmov    %eax,%ebx"))

    def test_codegen_fails_on_one_instruction_more(self):
        self.assert_differ(PLAIN, "int f(int x) { return x * 5; }\n", "instructions differ")

    def test_codegen_fails_on_data(self):
        self.assert_differ(PLAIN, PLAIN + "int table[3] = {1};\n", "sections differ")

    def test_codegen_fails_on_a_call_of_another_name(self):
        self.assert_differ("void g(); void f() { g(); }\n", "void h(); void f() { h(); }\n", "differ")

    def test_codegen_fails_on_a_reference_that_is_no_instruction(self):
        referring = PLAIN + "extern int %s; int* pointer = &%s;\n"
        self.assert_differ(referring % ("a", "a"), referring % ("b", "b"), "symbols differ")

    def test_codegen_fails_on_a_static_constructor(self):
        self.assert_differ(PLAIN, PLAIN + "int g(); int global = g();\n", "differ")

    def test_codegen_fails_on_a_source_that_does_not_compile(self):
        self.assert_differ(PLAIN, "int f(", "does not compile")

    def test_codegen_fails_where_there_is_no_function_to_compare(self):
        self.assert_differ("", "", "no function")

    def test_preprocess_names_the_forbidden_header_however_deep(self):
        self.file("deep.h", "#include <thread>\n")
        self.file("top.h", '#include "deep.h"\n')
        for compiler in ("g++", "clang++"):
            found = preprocess.check("top.h", compiler, ["-I" + self.folder], ["cuda", "thread"])
            self.assertIn("/thread (matches 'thread')", found)

    def test_preprocess_passes_a_header_without_any(self):
        self.file("top.h", "#include <cstddef>\n")
        self.assertIsNone(preprocess.check("top.h", "g++", ["-I" + self.folder], ["cuda", "thread"]))

    def test_preprocess_fails_on_a_header_that_is_not_there(self):
        self.assertIn("does not compile", preprocess.check("no.h", "g++", ["-I" + self.folder], ["cuda"]))

    def test_headers_fails_on_a_header_that_needs_another_first(self):
        self.file("needy.h", "#pragma once\ninline std::size_t n = 0;\n")
        self.assertIn("needy.h", headers.check("needy.h", "clang++", ["-I" + self.folder]))

    def test_headers_fails_on_a_header_without_pragma_once(self):
        self.file("twice.h", "struct Twice {};\n")
        self.assertIn("redefinition", headers.check("twice.h", "g++", ["-I" + self.folder]))

    def test_headers_fails_on_a_warning(self):
        self.file("warns.h", "#pragma once\ninline int f(double d) { return d; }\n")
        self.assertIn("conversion", headers.check("warns.h", "g++", ["-I" + self.folder]))

    def test_every_program_fails_where_a_compiler_is_missing(self):
        source = self.file("case.cc", PLAIN)
        for program in ("compile_fail.py", "codegen.py", "preprocess.py", "headers.py"):
            command = [sys.executable, "-B", os.path.join(PROGRAMS, program)]
            command += ["--compiler=no-such-compiler", source, source]
            command += ["--forbid=cuda"] if program == "preprocess.py" else []
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn("not installed: no-such-compiler", ran.stderr)


if __name__ == "__main__":
    unittest.main()
