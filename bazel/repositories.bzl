"""All that comm needs from outside, for WORKSPACE users:

    local_repository(name = "comm", path = "...")   # or http_archive
    load("@comm//bazel:repositories.bzl", "comm_repositories")
    comm_repositories()
"""

load("//bazel:doctest.bzl", "doctest_repository")
load("//bazel:local_cuda.bzl", "local_cuda_repository")
load("//bazel:offline.bzl", "offline_repositories")

def comm_repositories():
    offline_repositories()
    system_repositories()

def system_repositories():
    """Repositories that are found on this machine, whichever way Bazel is set up."""
    doctest_repository(name = "doctest")
    local_cuda_repository(name = "local_cuda")
