"""over_host: a program built with --//comm:backend=host, whatever this build says, so that the
examples run on several ranks in every configuration."""

def _to_host_impl(settings, attr):
    return {"//comm:backend": "host"}

_to_host = transition(
    implementation = _to_host_impl,
    inputs = [],
    outputs = ["//comm:backend"],
)

def _over_host_impl(ctx):
    executable = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(
        output = executable,
        target_file = ctx.executable.program,
        is_executable = True,
    )
    runfiles = ctx.attr.program[0][DefaultInfo].default_runfiles
    return DefaultInfo(
        executable = executable,
        runfiles = ctx.runfiles([ctx.executable.program]).merge(runfiles),
    )

over_host = rule(
    implementation = _over_host_impl,
    attrs = {
        "program": attr.label(
            cfg = _to_host,
            executable = True,
            mandatory = True,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    executable = True,
)
