"""Stand-ins for repositories that Bazel before 7 would download although comm needs next to nothing
of them. With these in WORKSPACE the build works without a network."""

def _files_repository_impl(ctx):
    for path, content in ctx.attr.files.items():
        ctx.file(path, content, executable = False)

_files_repository = repository_rule(
    implementation = _files_repository_impl,
    attrs = {"files": attr.string_dict(mandatory = True, doc = "path to content")},
)

# Names of rules_cc for what is built into Bazel.
_CC_DEFS = """
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_library = native.objc_library
"""

# A .bzl file cannot export a built-in under the built-in's own name, so there is a step between.
_CC_BUILTIN = """
CC_INFO = CcInfo
"""
_CC_INFO = """
load("//cc:builtin.bzl", "CC_INFO")

CcInfo = CC_INFO
"""

# Bazel's own tools load these, whether or not anything is built in Java.
_JAVA_DEFS = """
java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
"""

_SH_TEST = """
sh_test = native.sh_test
"""

# Every test names a coverage tool, also where no coverage is asked for.
_COVERAGE_TOOLS = """
filegroup(
    name = "coverage_report_generator",
    visibility = ["//visibility:public"],
)
"""

def offline_repositories():
    """rules_cc, rules_java, rules_shell and remote_coverage_tools."""
    _files_repository(
        name = "rules_cc",
        files = {
            "cc/BUILD.bazel": "",
            "cc/builtin.bzl": _CC_BUILTIN,
            "cc/common/BUILD.bazel": "",
            "cc/common/cc_info.bzl": _CC_INFO,
            "cc/defs.bzl": _CC_DEFS,
        },
    )
    _files_repository(
        name = "rules_java",
        files = {"java/BUILD.bazel": "", "java/defs.bzl": _JAVA_DEFS},
    )
    _files_repository(
        name = "rules_shell",
        files = {"shell/BUILD.bazel": "", "shell/sh_test.bzl": _SH_TEST},
    )
    _files_repository(
        name = "remote_coverage_tools",
        files = {"BUILD.bazel": _COVERAGE_TOOLS},
    )
