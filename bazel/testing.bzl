"""Tests of what the compiler does: of errors, of object code, of what headers include. They run g++
and clang++ themselves, on sources and with the headers of `deps`.

    compile_fail_test(srcs, deps)      wrong code is refused with the words beside the bad line
    codegen_test(srcs, deps)           two sources give the same object code
    preprocess_test(hdrs, forbid)      headers include no file that matches a pattern
    headers_test(hdrs)                 headers compile alone
    cc_files(deps)                     no test: all that one reads which compiles comm by itself

Each has its program in bazel/testing/, whose first paragraph says the rest. A compiler that is not
installed fails the test.
"""

load("@local_cuda//:defs.bzl", "CUDA")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def in_runfiles(ctx, folder):
    """Where an include folder of the build is when the test runs."""
    for root in [ctx.bin_dir.path, ctx.genfiles_dir.path]:
        if folder == root:
            return "."
        if folder.startswith(root + "/"):
            folder = folder[len(root) + 1:]
    return "../" + folder[len("external/"):] if folder.startswith("external/") else folder

def _as_included(header):
    """A header's path as an #include names it."""
    path = header.short_path
    if "/_virtual_includes/" in path:
        return path.split("/_virtual_includes/")[1].partition("/")[2]
    return path

def _compiler_test_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps + ctx.attr.hdrs]
    includes = {"-I.": True}
    for context in contexts:
        for folder in depset(transitive = [context.includes, context.quote_includes]).to_list():
            includes["-I" + in_runfiles(ctx, folder)] = True
        for folder in context.system_includes.to_list():
            includes["-isystem" + in_runfiles(ctx, folder)] = True
    headers = [
        _as_included(header)
        for target in ctx.attr.hdrs
        for header in target[CcInfo].compilation_context.direct_public_headers
    ]
    words = ["exec", "python3", "-B", ctx.file.program.short_path]
    words += ["--include=" + flag for flag in includes]
    words += ctx.attr.options
    words += [source.short_path for source in ctx.files.srcs] + headers

    launcher = ctx.actions.declare_file(ctx.label.name + ".sh")
    quoted = ["'%s'" % word.replace("'", "'\\''") for word in words]
    ctx.actions.write(launcher, "#!/bin/sh\n" + " \\\n  ".join(quoted) + "\n", is_executable = True)
    files = depset(
        ctx.files.srcs + [ctx.file.program, ctx.file._compilers],
        transitive = [context.headers for context in contexts],
    )
    return DefaultInfo(executable = launcher, runfiles = ctx.runfiles(transitive_files = files))

_compiler_test = rule(
    implementation = _compiler_test_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(providers = [CcInfo]),
        "options": attr.string_list(),
        "program": attr.label(allow_single_file = True, mandatory = True),
        "srcs": attr.label_list(allow_files = True),
        "_compilers": attr.label(allow_single_file = True, default = "//bazel/testing:compilers.py"),
    },
    test = True,
)

def _test(name, program, size, tags = [], **kwargs):
    _compiler_test(
        name = name,
        program = "//bazel/testing:" + program,
        size = size,
        # They compile by themselves, so another --config would only repeat them: .ci/run runs what
        # has this tag once.
        tags = tags + ["any-config"],
        **kwargs
    )

def compile_fail_test(name, srcs, deps, size = "medium", **kwargs):
    """Each section of `srcs` fails to compile with the text beside its bad line."""
    _test(name, "compile_fail.py", size, srcs = srcs, deps = deps, **kwargs)

def codegen_test(name, srcs, deps, size = "medium", **kwargs):
    """The two files of `srcs` give the same object code."""
    _test(name, "codegen.py", size, srcs = srcs, deps = deps, **kwargs)

def preprocess_test(name, hdrs, forbid, size = "small", **kwargs):
    """No header of the libraries `hdrs` includes a file that matches one of the patterns `forbid`."""
    options = ["--forbid=" + pattern for pattern in forbid]
    _test(name, "preprocess.py", size, hdrs = hdrs, options = options, **kwargs)

def headers_test(name, hdrs, size = "large", **kwargs):
    """Each header of the libraries `hdrs` compiles alone."""
    options = [] if CUDA.missing else ["--nvcc=" + CUDA.nvcc]
    _test(name, "headers.py", size, hdrs = hdrs, options = options, **kwargs)

def _cc_files_impl(ctx):
    infos = [dep[CcInfo] for dep in ctx.attr.deps]
    archives = [
        library.pic_static_library or library.static_library
        for info in infos
        for input in info.linking_context.linker_inputs.to_list()
        for library in input.libraries
    ]
    return DefaultInfo(files = depset(
        [archive for archive in archives if archive],
        transitive = [info.compilation_context.headers for info in infos],
    ))

cc_files = rule(
    implementation = _cc_files_impl,
    doc = "The headers and archives of libraries: as data, they make a test run again when any of " +
          "them changes.",
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
