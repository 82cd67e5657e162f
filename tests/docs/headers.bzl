"""cc_headers: the headers of libraries as files, for a test that runs a compiler itself."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _cc_headers_impl(ctx):
    headers = depset(transitive = [
        dep[CcInfo].compilation_context.headers
        for dep in ctx.attr.deps
    ])
    return DefaultInfo(files = headers, runfiles = ctx.runfiles(transitive_files = headers))

cc_headers = rule(
    implementation = _cc_headers_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
