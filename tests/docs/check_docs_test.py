#!/usr/bin/env python3
"""The check of the documents fails where it should."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_docs.py")
FENCE = "```"


def block(language, code):
    return "%s%s\n%s\n%s\n" % (FENCE, language, code, FENCE)


class CheckDocs(unittest.TestCase):
    def check(self, text):
        with tempfile.TemporaryDirectory() as folder:
            document = os.path.join(folder, "doc.md")
            bazelrc = os.path.join(folder, "bazelrc")
            with open(document, "w", encoding="utf-8") as file:
                file.write(text)
            with open(bazelrc, "w", encoding="utf-8") as file:
                file.write("build:host --//comm:backend=host\n")
            return subprocess.run(
                [sys.executable, "-B", CHECK, "--bazelrc", bazelrc, "--label=//a:b", document],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
            )

    def passes(self, text):
        result = self.check(text)
        self.assertEqual(result.returncode, 0, result.stdout)

    def fails(self, text, words):
        result = self.check(text)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(words, result.stdout)

    def test_sound_documents_pass(self):
        self.passes(block("cpp", "int main() { return 0; }"))
        self.passes(block("cpp", "comm::Status s = communicator.barrier();\nreturn s;"))
        self.passes(block("cpp", "struct Own {};\nOwn make() { return {}; }"))
        self.passes(block("sh", "./bazelw test //...   # all\nbazel run --config=host //a:b"))
        self.passes(block("starlark", 'cc_binary(name = "x")') + block("json", "{}"))
        self.passes("[this](doc.md) [that](https://example.com)\n" + block("text", "anything"))

    def test_cpp_that_does_not_compile_fails(self):
        self.fails(block("cpp", "int main() { return nothing; }"), "nothing")
        self.fails(block("cpp", "communicator.all_reduc(activations);"), "all_reduc")

    def test_cpp_that_drops_an_error_fails(self):
        self.fails(block("cpp", "communicator.barrier();"), "refuses it")

    def test_unknown_languages_fail(self):
        self.fails(block("fortran", "x"), "'fortran' is no kind of snippet")
        self.fails(block("", "x"), "'' is no kind of snippet")

    def test_blocks_without_end_or_fence_fail(self):
        self.fails(FENCE + "sh\nls\n", "has no end")
        self.fails(block("text", "x") + "For example\n\n    int x;\n", "names the language")
        self.passes(block("text", "x") + "* one\n\n    goes on\n")

    def test_unknown_commands_targets_and_configs_fail(self):
        self.fails(block("sh", "frobnicate --all"), "can neither be run here")
        self.fails(block("sh", "bazel build //a:c"), "names //a:c")
        self.fails(block("sh", "bazel build --config=moon //a:b"), "--config=moon")
        self.fails(block("sh", "git clone 'x"), "not sound shell")
        self.fails(block("sh", "bazel-bin/no/program"), "is not built for this test")

    def test_other_languages_must_parse(self):
        self.fails(block("starlark", "cc_binary("), "FAILED")
        self.fails(block("json", "{"), "FAILED")

    def test_dead_links_and_documents_without_snippets_fail(self):
        self.fails("[gone](gone.md)\n" + block("text", "x"), "leads nowhere")
        self.assertEqual(self.check("words").returncode, 1)


if __name__ == "__main__":
    unittest.main()
