#!/usr/bin/env python3
"""compile_fail.py itself: that it fails whenever it should."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "bazel/testing")
import compile_fail  # noqa: E402
import compilers  # noqa: E402

PRELUDE = """
#include <concepts>
template <class T> concept Number = std::integral<T>;
template <class T> constexpr T twice(T t) { static_assert(Number<T>, "twice takes a number"); return t; }
template <Number T> constexpr T half(T t) { return t; }
struct [[nodiscard]] Status {};
inline Status act() { return {}; }
int main() {
"""


def verdicts(body, prelude=PRELUDE, compiler=None):
    """What is wrong with each section, control included, by all compilers or one."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        source = os.path.join(folder, "case.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(prelude + body + "\n}\n")
        with open(source, encoding="utf-8") as file:
            found = compile_fail.sections(file.read())
        return [
            compile_fail.check(source, [], tool, section, expectations)
            for tool in ([compiler] if compiler else compilers.COMPILERS)
            for section, expectations in [(None, []), *found.items()]
        ]


def section(code):
    return "#ifdef FAIL_it\n%s\n#endif" % code


class CompileFailTest(unittest.TestCase):
    def assert_passes(self, body):
        self.assertEqual([verdict for verdict in verdicts(body) if verdict], [])

    def assert_fails(self, body, text, **kwargs):
        for_each_compiler = [v for v in verdicts(body, **kwargs) if v]
        self.assertEqual(len(for_each_compiler), 1 if "compiler" in kwargs else 2)
        for verdict in for_each_compiler:
            self.assertIn(text, verdict)

    def test_an_error_with_the_text_passes(self):
        self.assert_passes(section('return half("x");  // EXPECT: Number'))

    def test_an_error_inside_a_template_is_traced_to_the_line_that_caused_it(self):
        self.assert_passes(section("return twice(1.5) > 1;  // EXPECT: twice takes a number"))

    def test_the_text_may_stand_on_the_line_before(self):
        self.assert_passes(section('// EXPECT: Number\nreturn half("x");'))

    def test_a_text_for_one_compiler_is_not_asked_of_the_other(self):
        self.assert_passes(
            section(
                "// EXPECT(g++): cannot convert\n"
                "// EXPECT(clang++): cannot initialize\n"
                "int* p = 1.5;\n"
                "return *p;"
            )
        )

    def test_a_warning_passes_where_it_is_asked_for(self):
        self.assert_passes(section("act();  // WARN: ignoring return"))

    def test_a_section_that_compiles_fails(self):
        self.assert_fails(section("return half(2);  // EXPECT: Number"), "compiled, but must not")

    def test_another_text_fails(self):
        self.assert_fails(section('return half("x");  // EXPECT: a word of mine'), "a word of mine")

    def test_the_text_in_the_source_itself_does_not_count(self):
        self.assert_fails(section('return half("mine");  // EXPECT: mine"'), "no error leads")

    def test_the_right_error_on_another_line_fails(self):
        body = section('half("x");\nreturn 0;  // EXPECT: Number')
        self.assert_fails(body, "no error leads to line")

    def test_a_warning_is_no_error_although_werror_calls_it_one(self):
        self.assert_fails(section("act();  // EXPECT: ignoring return"), "no error leads to line")

    def test_an_error_is_no_warning(self):
        self.assert_fails(section('return half("x");  // WARN: Number'), "no warning leads to line")

    def test_notes_of_a_warning_do_not_count_for_the_error_before_it(self):
        found = compile_fail.diagnostics(
            "a.cc:1:2: error: e\na.cc:2:2: note: n\na.cc:3:2: warning: w\na.cc:4:2: note: other"
        )
        self.assertEqual(found[0], ("EXPECT", "a.cc:1:2: error: e\na.cc:2:2: note: n"))
        self.assertEqual([kind for kind, _ in found], ["EXPECT", "WARN"])

    def test_how_g_plus_plus_got_to_an_error_belongs_to_that_error_alone(self):
        found = compile_fail.diagnostics(
            "a.cc:1:2: error: e\na.cc: In instantiation of f\na.cc:9:2:   required from here\n"
            "a.cc:2:2: error: other"
        )
        self.assertEqual(["a.cc:9:" in text for _, text in found], [False, True])

    def test_a_control_that_does_not_compile_fails(self):
        found = verdicts("return half(1.5);\n" + section("return half(2.5);  // EXPECT: Number"))
        self.assertEqual(len([v for v in found if v and "the control" in v]), 2)

    def test_a_file_without_sections_is_refused(self):
        with self.assertRaises(compile_fail.Malformed):
            compile_fail.sections("int x;\n")

    def test_a_section_without_an_expectation_is_refused(self):
        with self.assertRaises(compile_fail.Malformed):
            compile_fail.sections("#ifdef FAIL_it\nint x = 1.5;\n#endif\n")

    def test_an_expectation_outside_of_a_section_is_refused(self):
        with self.assertRaises(compile_fail.Malformed):
            compile_fail.sections(section("int x;  // EXPECT: a") + "\nint y;  // EXPECT: b\n")

    def test_a_section_that_never_ends_is_refused(self):
        with self.assertRaises(compile_fail.Malformed):
            compile_fail.sections("#ifdef FAIL_it\nint x;  // EXPECT: a\n")

    def test_a_compiler_that_is_not_there_fails(self):
        with self.assertRaises(SystemExit) as exit_:
            compilers.require("g++", "no-such-compiler")
        self.assertIn("no-such-compiler", str(exit_.exception))


if __name__ == "__main__":
    unittest.main()
