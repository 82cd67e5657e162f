"""@doctest: the test framework, from the system where it is installed (Debian: doctest-dev), and
downloaded by checksum only otherwise."""

_SYSTEM_ROOTS = ["/usr/include", "/usr/local/include"]
_OLDEST = [2, 4, 9]

_URL = "https://github.com/doctest/doctest/archive/refs/tags/v2.4.11.tar.gz"
_SHA256 = "632ed2c05a7f53fa961381497bf8069093f0d6628c5f26286161fbd32a560186"
_PREFIX = "doctest-2.4.11"

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "doctest",
    testonly = True,
    hdrs = ["doctest/doctest.h"],
    includes = ["."],
    visibility = ["//visibility:public"],
)
"""

def _version(text):
    """[major, minor, patch] of a doctest.h; [0, 0, 0] where it does not say."""
    version = [0, 0, 0]
    for line in text.split("\n"):
        for i, part in enumerate(["MAJOR", "MINOR", "PATCH"]):
            prefix = "#define DOCTEST_VERSION_%s " % part
            if line.startswith(prefix):
                version[i] = int(line[len(prefix):].strip())
    return version

def _doctest_impl(ctx):
    ctx.file("BUILD.bazel", _BUILD, executable = False)
    for root in _SYSTEM_ROOTS:
        header = ctx.path(root + "/doctest/doctest.h")
        if header.exists and _version(ctx.read(header)) >= _OLDEST:
            ctx.symlink(header, "doctest/doctest.h")
            return
    ctx.download_and_extract(_URL, output = "source", sha256 = _SHA256, stripPrefix = _PREFIX)
    ctx.symlink("source/doctest/doctest.h", "doctest/doctest.h")

doctest_repository = repository_rule(
    implementation = _doctest_impl,
    local = True,  # Looked up again when Bazel's server starts: it may have been installed since.
)
