#pragma once

/// The bytes that the model reads.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/result.h"

namespace example {

struct Text {
  std::string name;                 ///< As the user knows it.
  std::vector<std::uint8_t> bytes;  ///< The first `most` of the file.
};

/// `path` is relative to where the user is, also under `bazel run`; empty means this project's README.
comm::Result<Text> read_text(const std::string& path, std::size_t most);

}  // namespace example
