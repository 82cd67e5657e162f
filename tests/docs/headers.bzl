"""cc_headers: the headers of libraries as files, for a test that runs a compiler itself. The target's
own file, NAME.includes, has the include folders, one a line, as the test sees them."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//bazel:testing.bzl", "in_runfiles")

def _cc_headers_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    folders = depset(["."], transitive = [
        folders
        for context in contexts
        for folders in [context.includes, context.quote_includes, context.system_includes]
    ])
    includes = {in_runfiles(ctx, folder): True for folder in folders.to_list()}
    listing = ctx.actions.declare_file(ctx.label.name + ".includes")
    ctx.actions.write(listing, "\n".join(includes.keys()) + "\n")
    headers = depset(transitive = [context.headers for context in contexts])
    return DefaultInfo(
        files = depset([listing]),
        runfiles = ctx.runfiles([listing], transitive_files = headers),
    )

cc_headers = rule(
    implementation = _cc_headers_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
