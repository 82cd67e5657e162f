"""cuda_library: CUDA sources compiled by nvcc, to depend on as on any cc_library.

    load("//bazel:cuda.bzl", "REQUIRES_CUDA", "cuda_library")

    cuda_library(
        name = "add",
        srcs = ["add.cu"],
        hdrs = ["add.h"],
    )

It compiles with g++ as the host compiler, as C++20, for the architectures that
--//bazel:cuda_architectures lists. It brings the CUDA headers, but not the runtime library: what is
linked in the end adds @local_cuda//:cudart, or a simulation of it. Where this machine has no CUDA the
target is incompatible: //... leaves it out, and naming it is an error.
"""

load("@local_cuda//:defs.bzl", "CUDA")
load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//bazel:flags.bzl", "FlagInfo")

# For target_compatible_with, of whatever includes or links CUDA or NCCL.
REQUIRES_CUDA = [Label("//bazel:cuda_and_nccl")] if CUDA.missing else []

def _gencode(flag):
    """nvcc's arguments for "80,90a": machine code for each, and PTX of the last for newer GPUs."""
    architectures = CUDA.architectures if flag == "all" else flag.split(",")
    for name in architectures:
        if not name[:2].isdigit():
            fail("--//bazel:cuda_architectures=%s: '%s' is no architecture; use all, or as in 80,90a,120" %
                 (flag, name))
    code = ["-gencode=arch=compute_%s,code=sm_%s" % (name, name) for name in architectures]
    return code + ["-gencode=arch=compute_%s,code=compute_%s" % (architectures[-1], architectures[-1])]

def _nvcc_objects_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    root = ctx.label.workspace_root  # "" here; external/comm in a workspace that depends on comm.
    own_folders = [root or ".", ctx.bin_dir.path + ("/" + root if root else "")]
    folders = depset(own_folders, transitive = [
        folders
        for context in contexts
        for folders in [context.includes, context.quote_includes, context.system_includes]
    ])
    headers = depset(ctx.files.hdrs, transitive = [context.headers for context in contexts])
    defines = depset(transitive = [context.defines for context in contexts])

    objects = []
    for source in ctx.files.srcs:
        object = ctx.actions.declare_file("%s/%s.pic.o" % (ctx.label.name, source.basename[:-3]))
        arguments = ctx.actions.args()
        arguments.add_all(["-c", source, "-o", object])
        arguments.add_all(["-std=c++20", "-O3", "-ccbin=g++", "-Xcompiler=-fPIC", "--threads=2"])
        arguments.add_all(_gencode(ctx.attr._architectures[FlagInfo].value))
        arguments.add_all(folders, before_each = "-I")
        arguments.add_all(defines, before_each = "-D")
        arguments.add_all(ctx.attr.copts)
        ctx.actions.run(
            executable = CUDA.nvcc,
            arguments = [arguments],
            inputs = depset([source], transitive = [headers]),
            outputs = [object],
            env = {"CUDA_VERSION_OF_HEADERS": CUDA.cuda_version},  # Another CUDA: build again.
            mnemonic = "Nvcc",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(object)
    return DefaultInfo(files = depset(objects))

_nvcc_objects = rule(
    implementation = _nvcc_objects_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = True),
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
        "_architectures": attr.label(default = "//bazel:cuda_architectures"),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], copts = [], visibility = None, **kwargs):
    """A cc_library of CUDA sources.

    Args:
      name: as in cc_library.
      srcs: the .cu files.
      hdrs: as in cc_library.
      deps: as in cc_library.
      copts: arguments for nvcc.
      visibility: as in cc_library.
      **kwargs: handed on to cc_library.
    """
    deps = deps + ["@local_cuda//:cuda_headers"]
    _nvcc_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        copts = copts,
        target_compatible_with = REQUIRES_CUDA,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    cc_library(
        name = name,
        srcs = [name + "_objects"],
        hdrs = hdrs,
        target_compatible_with = REQUIRES_CUDA,
        visibility = visibility,
        deps = deps,
        **kwargs
    )
