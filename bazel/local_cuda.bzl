"""@local_cuda: the CUDA toolkit and NCCL of this machine, as find_cuda.py finds them.

    @local_cuda//:cuda_headers      cuda.h, cuda_runtime_api.h, cuda_bf16.h, nvtx3/, ...
    @local_cuda//:cudart            the headers and the shared runtime library
    @local_cuda//:cuda_driver_stub  links libcuda; what runs then needs a driver
    @local_cuda//:nccl_headers      nccl.h
    @local_cuda//:nccl              the header and the shared NCCL library
    @local_cuda//:defs.bzl          CUDA, a struct of the facts

Without CUDA, or with a part of it missing, the targets are there but incompatible, and CUDA.missing
says what was looked for in vain.
"""

_DEFS = """
CUDA = struct(
    missing = {missing},  # In words; empty: all is there.
    cuda_version = "{cuda_version}",  # CUDA_VERSION of cuda.h
    nccl_version = "{nccl_version}",  # NCCL_VERSION_CODE of nccl.h
    nvcc = "{nvcc}",
    cuobjdump = "{cuobjdump}",
    architectures = {architectures},
)
"""

_HEADERS = """
cc_library(
    name = "{name}",
    hdrs = glob({patterns}, allow_empty = True),
    includes = {includes},
    target_compatible_with = {compatible},
    deps = {deps},
)
"""

# A library under the name that programs look for when they start.
_SHARED_LIBRARY = """
cc_import(
    name = "{name}_library",
    shared_library = "{file}",
    visibility = ["//visibility:private"],
)

cc_library(
    name = "{name}",
    target_compatible_with = {compatible},
    deps = [":{headers}", ":{name}_library"],
)
"""

# Nothing is there, or it is useless without the rest: still a target, so that //... can be analyzed.
_NO_LIBRARY = """
cc_library(
    name = "{name}",
    target_compatible_with = {compatible},
    deps = [":{headers}"],
)
"""

def _incompatible(ctx):
    """//bazel:cuda_and_nccl, spelled so that it means the same inside @local_cuda."""
    label = str(ctx.attr.incompatible)
    return ["@" + label if label.startswith("//") else label]

def _library(ctx, name, path, headers, compatible):
    if not path or compatible:
        compatible = _incompatible(ctx)
        return _NO_LIBRARY.format(name = name, headers = headers, compatible = repr(compatible))
    file = "lib/" + path.split("/")[-1]
    ctx.symlink(path, file)
    return _SHARED_LIBRARY.format(
        name = name,
        file = file,
        headers = headers,
        compatible = repr(compatible),
    )

def _local_cuda_impl(ctx):
    python = ctx.which("python3")
    if not python:
        fail("python3 is not on PATH; the search for CUDA (bazel/find_cuda.py) needs it")
    result = ctx.execute([python, ctx.path(ctx.attr.finder)])
    if result.return_code != 0:
        fail("the search for CUDA failed (bazel/find_cuda.py):\n" + result.stderr)
    found = json.decode(result.stdout)
    compatible = _incompatible(ctx) if found["missing"] else []

    cuda = []
    for i, folder in enumerate(found["cuda_includes"]):
        cuda.append("cuda%d" % i)
        ctx.symlink(folder, cuda[i])
    if found["nccl_include"]:
        ctx.symlink(found["nccl_include"], "nccl")

    # All that C++ code includes of CUDA; not the 1,700 files of CCCL beside it.
    patterns = ["*.h", "*.hpp", "cooperative_groups/**", "crt/*", "nv/**", "nvtx3/**"]
    build = [
        'load("@rules_cc//cc:defs.bzl", "cc_import", "cc_library")',
        'package(default_visibility = ["//visibility:public"])',
        _HEADERS.format(
            name = "cuda_headers",
            patterns = repr([folder + "/" + pattern for folder in cuda for pattern in patterns]),
            includes = repr(cuda),
            compatible = repr(compatible),
            deps = [],
        ),
        _HEADERS.format(
            name = "nccl_headers",
            patterns = repr(["nccl/nccl*.h", "nccl/nccl_device/**"]),
            includes = repr(["nccl"]),
            compatible = repr(compatible),
            deps = [":cuda_headers"],
        ),
        _library(ctx, "cudart", found["cudart"], "cuda_headers", compatible),
        _library(ctx, "cuda_driver_stub", found["cuda_driver_stub"], "cuda_headers", compatible),
        _library(ctx, "nccl", found["nccl"], "nccl_headers", compatible),
    ]
    ctx.file("BUILD.bazel", "\n".join(build), executable = False)
    ctx.file("defs.bzl", _DEFS.format(**found), executable = False)

local_cuda_repository = repository_rule(
    implementation = _local_cuda_impl,
    attrs = {
        "finder": attr.label(default = "//bazel:find_cuda.py"),
        "incompatible": attr.label(default = "//bazel:cuda_and_nccl"),
    },
    environ = ["CUDA_HOME", "CUDA_PATH", "NCCL_HOME", "PATH"],
    local = True,  # Looked up again when Bazel's server starts.
)
