"""What MODULE.bazel takes from this machine rather than from the registry."""

load("//bazel:repositories.bzl", "system_repositories")

system = module_extension(implementation = lambda _ctx: system_repositories())
