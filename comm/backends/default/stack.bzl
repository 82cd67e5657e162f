"""default_stack: comm/default_backend.h for one backend, with the decorators that flags chose.

The header that is checked in (host/comm/default_backend.h and its like) is the stack without flags,
and what a build without Bazel includes. The flags wrap more around it, from the inside out:

    Logged     always. What it shows is what reached the backend: all that is around it may refuse.
    Checked    --//comm:checked. A call that ranks do not agree on goes no further.
    Recorded   --//comm:recorded. It keeps calls that were refused, too: they are what one looks for.
    Nvtx       --//comm:nvtx. A range is as long as the engine's thread was in the call.

Exactly one target of a build provides comm/default_backend.h, so all of it sees one choice.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//bazel:flags.bzl", "FlagInfo")

# From the inside out.
_DECORATORS = ["checked", "recorded", "nvtx"]

def _default_backend_header_impl(ctx):
    plain = "Logged<%s>" % ctx.attr.backend
    includes = ["logged"]
    stack = plain
    for name in _DECORATORS:
        if getattr(ctx.attr, "_" + name)[FlagInfo].value:
            stack = "%s<%s>" % (name.capitalize(), stack)
            includes.append(name)
    ctx.actions.expand_template(
        template = ctx.file.template,
        output = ctx.outputs.header,
        substitutions = {
            plain: stack,
            "#include \"comm/decorators/logged.h\"\n": "".join(
                ["#include \"comm/decorators/%s.h\"\n" % name for name in sorted(includes)],
            ),
        },
    )

_default_backend_header = rule(
    implementation = _default_backend_header_impl,
    attrs = {
        "backend": attr.string(mandatory = True),
        "header": attr.output(mandatory = True),
        "template": attr.label(allow_single_file = True, mandatory = True),
        "_checked": attr.label(default = "//comm:checked"),
        "_nvtx": attr.label(default = "//comm:nvtx"),
        "_recorded": attr.label(default = "//comm:recorded"),
    },
)

def default_stack(name, folder, backend, deps, **kwargs):
    """A cc_library that provides comm/default_backend.h.

    Args:
      name: as in cc_library.
      folder: has comm/default_backend.h, the stack without flags.
      backend: the type.
      deps: what declares it.
      **kwargs: handed on.
    """
    restrictions = {key: kwargs[key] for key in ["target_compatible_with"] if key in kwargs}
    _default_backend_header(
        name = name + "_header",
        backend = backend,
        header = "stack_%s/comm/default_backend.h" % name,
        template = folder + "/comm/default_backend.h",
        visibility = ["//visibility:private"],
        **restrictions
    )
    cc_library(
        name = name,
        hdrs = ["stack_%s/comm/default_backend.h" % name],
        strip_include_prefix = "stack_" + name,
        deps = deps + ["//comm/decorators:logged"] + select({
            "//comm:with_checked": ["//comm/decorators:checked"],
            "//conditions:default": [],
        }) + select({
            "//comm:with_nvtx": ["//comm/decorators:nvtx"],
            "//conditions:default": [],
        }) + select({
            "//comm:with_recorded": ["//comm/decorators:recorded"],
            "//conditions:default": [],
        }),
        **kwargs
    )
