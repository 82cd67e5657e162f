#!/usr/bin/env python3
"""find_cuda.py finds each layout that CUDA comes in, and never mixes two."""

import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, "bazel")
import find_cuda  # noqa: E402

NVCC = "#!/bin/sh\nprintf 'compute_52\\ncompute_90\\ncompute_100\\ncompute_80\\n'\n"
TOOLKIT = {
    "include/cuda_runtime_api.h": "",
    "include/crt/host_config.h": "",
    "include/cuda.h": "#define CUDA_VERSION 12040\n",
    "lib64/libcudart.so": "",
    "lib64/libcudart.so.12": "",
    "lib64/libcudart.so.12.4.127": "",
    "lib64/stubs/libcuda.so": "",
    "bin/nvcc": NVCC,
}
NCCL = {
    "include/nccl.h": "#define NCCL_VERSION_CODE 22005\n",
    "lib/libnccl.so": "",
    "lib/libnccl.so.2": "",
    "lib/libnccl.so.2.20.5": "",
}


class FindCudaTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.wheels = os.path.join(self.root, "site")
        for patch in (
            mock.patch.dict(os.environ, {"PATH": os.path.join(self.root, "nothing")}, clear=True),
            mock.patch.object(find_cuda, "TOOLKIT", os.path.join(self.root, "cuda")),
            mock.patch.object(find_cuda, "SYSTEM", [os.path.join(self.root, "usr")]),
            mock.patch.object(sys, "path", [self.wheels]),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def lay(self, folder, files):
        for name, content in files.items():
            path = os.path.join(self.root, folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            os.chmod(path, 0o755)
        return os.path.join(self.root, folder)

    def test_a_toolkit_with_nccl_inside_it(self):
        cuda = self.lay("cuda", {**TOOLKIT, **NCCL})
        found = find_cuda.find_all()
        self.assertEqual(found["missing"], [])
        self.assertEqual(found["cuda_includes"], [cuda + "/include"])
        self.assertEqual(found["cuda_version"], "12040")
        self.assertEqual(found["cudart"], cuda + "/lib64/libcudart.so.12")
        self.assertEqual(found["cuda_driver_stub"], cuda + "/lib64/stubs/libcuda.so")
        self.assertEqual(found["nccl"], cuda + "/lib/libnccl.so.2")
        self.assertEqual(found["nccl_version"], "22005")

    def test_architectures_older_than_turing_are_left_out_and_the_newest_is_last(self):
        self.lay("cuda", TOOLKIT)
        self.assertEqual(find_cuda.find_all()["architectures"], ["80", "90", "100"])

    def test_cuda_home_and_nccl_home_win_over_everything_else(self):
        self.lay("cuda", {**TOOLKIT, **NCCL})
        os.environ["CUDA_HOME"] = self.lay("mine", TOOLKIT)
        os.environ["NCCL_HOME"] = self.lay("mine_too", NCCL)
        found = find_cuda.find_all()
        self.assertEqual(found["cudart"], os.environ["CUDA_HOME"] + "/lib64/libcudart.so.12")
        self.assertEqual(found["nccl_include"], os.environ["NCCL_HOME"] + "/include")

    def test_a_wrong_cuda_home_is_reported_and_not_papered_over(self):
        self.lay("cuda", {**TOOLKIT, **NCCL})
        os.environ["CUDA_HOME"] = os.path.join(self.root, "nowhere")
        missing = " ".join(find_cuda.find_all()["missing"])
        self.assertIn("cuda_runtime_api.h", missing)
        self.assertIn("libcudart", missing)

    def test_the_toolkit_of_the_nvcc_on_path(self):
        cuda = self.lay("opt/cuda-12.4", TOOLKIT)
        os.environ["PATH"] = cuda + "/bin"
        self.assertEqual(find_cuda.find_all()["nvcc"], cuda + "/bin/nvcc")
        self.assertEqual(find_cuda.find_all()["cuda_includes"], [cuda + "/include"])

    def test_wheels_of_cuda_12_spread_over_several_folders(self):
        wheels = self.lay(
            "site/nvidia",
            {
                "cuda_runtime/include/cuda_runtime_api.h": "",
                "cuda_runtime/lib/libcudart.so.12": "",
                "cuda_nvcc/include/crt/host_config.h": "",
                "nccl/include/nccl.h": "",
                "nccl/lib/libnccl.so.2": "",
            },
        )
        found = find_cuda.find_all()
        self.assertEqual(
            found["cuda_includes"],
            [wheels + "/cuda_runtime/include", wheels + "/cuda_nvcc/include"],
        )
        self.assertEqual(found["cudart"], wheels + "/cuda_runtime/lib/libcudart.so.12")
        self.assertEqual(found["nccl"], wheels + "/nccl/lib/libnccl.so.2")
        self.assertEqual(found["missing"], ["the CUDA compiler (nvcc)"])

    def test_wheels_of_cuda_13_in_one_folder(self):
        wheels = self.lay("site/nvidia/cu13", {**TOOLKIT, "lib/libcudart.so.13": ""})
        os.remove(wheels + "/lib64/libcudart.so.12")
        self.lay("site/nvidia/nccl", NCCL)
        found = find_cuda.find_all()
        self.assertEqual(found["missing"], [])
        self.assertEqual(found["nvcc"], wheels + "/bin/nvcc")

    def test_a_machine_without_any(self):
        self.assertEqual(len(find_cuda.find_all()["missing"]), 5)


if __name__ == "__main__":
    unittest.main()
