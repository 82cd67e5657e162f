"""headers_of: the headers of libraries and of all they depend on, as files for a test to read."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _headers_of_impl(ctx):
    headers = depset(transitive = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps])
    own = [header for header in headers.to_list() if not header.owner.workspace_name]
    return DefaultInfo(files = depset(own), runfiles = ctx.runfiles(files = own))

headers_of = rule(
    implementation = _headers_of_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
