#include "examples/tensor_parallel/text.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

namespace example {
namespace {

namespace fs = std::filesystem;

/// Beside the binary if Bazel built it; otherwise where the program was started.
std::string readme() {
  std::error_code ignored;
  const std::string self = fs::read_symlink("/proc/self/exe", ignored).string();
  for (const char* workspace : {"comm", "_main", "comm~"}) {  // names that Bazel's versions use
    const std::string path = self + ".runfiles/" + workspace + "/README.md";
    if (fs::exists(path, ignored)) return path;
  }
  return "README.md";
}

std::string as_given(const std::string& path) {
  const char* started_in = std::getenv("BUILD_WORKING_DIRECTORY");
  return started_in == nullptr ? path : (fs::path(started_in) / path).string();
}

}  // namespace

comm::Result<Text> read_text(const std::string& path, std::size_t most) {
  Text text{path.empty() ? "README.md" : path, {}};
  const std::string place = path.empty() ? readme() : as_given(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(place.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) {
    return comm::make_error(comm::StatusCode::invalid_argument, errno,
                            "cannot open the text %s: %s", place.c_str(), std::strerror(errno));
  }
  text.bytes.resize(most);
  text.bytes.resize(std::fread(text.bytes.data(), 1, most, file.get()));
  if (text.bytes.empty()) {
    return comm::make_error(comm::StatusCode::invalid_argument, errno,
                            "the text %s is empty or cannot be read", place.c_str());
  }
  return text;
}

}  // namespace example
