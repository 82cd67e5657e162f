"""Build flags: one of a few words, or yes and no."""

FlagInfo = provider(doc = "The value of a flag.", fields = ["value"])

def _string_flag_impl(ctx):
    value = ctx.build_setting_value
    if ctx.attr.values and value not in ctx.attr.values:
        fail("--%s=%s: unknown value; use one of: %s" %
             (ctx.label, value, ", ".join(ctx.attr.values)))
    return FlagInfo(value = value)

string_flag = rule(
    implementation = _string_flag_impl,
    build_setting = config.string(flag = True),
    attrs = {"values": attr.string_list(doc = "The words it takes; empty: any.")},
)

def _bool_flag_impl(ctx):
    return FlagInfo(value = ctx.build_setting_value)

bool_flag = rule(
    implementation = _bool_flag_impl,
    build_setting = config.bool(flag = True),
)
