#include "comm/trace/reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "comm/trace/fields.h"

namespace comm::trace {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::size_t kMostEntries = 65536;
constexpr int kDeepest = 16;

/// Tells how far the parser has come: it reads one character at a time, and no event says where.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *furthest = ++at;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

/// Takes the events of the parser; false ends it, with `why` set.
class Handler {
 public:
  explicit Handler(Dump& dump) : dump_(dump) {}

  std::string why;
  std::size_t where = 0;  ///< Set with `why` where the parser knows it.

  bool null() { return take(Value{}); }
  bool boolean(bool value) { return take({.kind = Value::boolean, .number = value}); }
  bool number_integer(std::int64_t value) {
    if (value < 0)
      return take({.kind = Value::negative, .number = static_cast<std::uint64_t>(value)});
    return number_unsigned(static_cast<std::uint64_t>(value));
  }
  bool number_unsigned(std::uint64_t value) {
    return take({.kind = Value::unsigned_number, .number = value});
  }
  bool number_float(double, const std::string&) { return take({.kind = Value::other}); }
  bool string(std::string& value) { return take({.kind = Value::string, .text = value}); }
  bool binary(std::vector<std::uint8_t>&) { return fail("binary data"); }

  bool start_object(std::size_t) {
    if (++depth_ > kDeepest) return fail("nested too deeply");
    if (depth_ == 1) return true;
    if (depth_ == 2 && !is_list_) {
      section_ = section_of(key_);
      return section_ != Section::entries || fail("\"entries\" is no list");
    }
    if (depth_ == 3 && is_list_ && section_ == Section::entries) {
      if (dump_.entries.size() == kMostEntries) return fail("more entries than a recorder has");
      dump_.entries.emplace_back();
      is_entry_ = true;
    }
    return true;
  }
  bool end_object() {
    if (depth_-- == 3 && std::exchange(is_entry_, false)) return end_entry();
    if (depth_ == 1) section_ = Section::root;
    return true;
  }
  bool start_array(std::size_t) {
    if (++depth_ > kDeepest) return fail("nested too deeply");
    if (depth_ == 1) return fail("not an object");
    if (depth_ == 2) {
      section_ = section_of(key_);
      is_list_ = true;
    }
    return true;
  }
  bool end_array() {
    if (depth_-- == 2) {
      section_ = Section::root;
      is_list_ = false;
    }
    return true;
  }
  bool key(std::string& name) {
    key_ = name;
    return true;
  }

  template <class Exception>
  bool parse_error(std::size_t position, const std::string&, const Exception& exception) {
    const char* text = std::strstr(exception.what(), "syntax error");
    where = position;
    return fail(text == nullptr ? "no number that a dump can have, or no text" : text);
  }

 private:
  bool fail(const char* reason) {
    why = reason;
    return false;
  }

  bool take(const Value& value) {
    const char* problem = nullptr;
    if (depth_ == 0) return fail("not an object");
    if (depth_ == 1)
      problem = set_root(root_, key_, value);
    else if (depth_ == 2 && !is_list_)
      problem = set_section(dump_, section_, key_, value);
    else if (depth_ == 3 && is_entry_)
      problem = set_entry(dump_.entries.back(), key_, value);
    if (problem == nullptr) return true;
    why = "\"" + key_.substr(0, 40) + "\" is " + problem;
    return false;
  }

  bool end_entry() {
    const Entry& last = dump_.entries.back();
    if (last.seq == 0) return fail("an entry without \"seq\"");
    const std::size_t size = dump_.entries.size();
    if (size > 1 && last.seq <= dump_.entries[size - 2].seq)
      return fail("the entries are not in the order of \"seq\"");
    return true;
  }

 public:
  /// What holds for the whole; null if it does.
  const char* finish() {
    if (!root_.is_dump) return "not a dump of a flight recorder (no \"format\")";
    if (!root_.has_version) return "it does not say its \"version\"";
    if (dump_.world_size == 0 || dump_.rank < 0) return "it does not say of which rank it is";
    if (dump_.rank >= dump_.world_size) return "its rank is not below its world size";
    if (dump_.name.empty()) return "it does not name its communicator";
    for (Entry& entry : dump_.entries) {
      if (entry.epoch > dump_.epoch) return "an entry is of a later epoch than the dump";
      if (entry.epoch == dump_.epoch && entry.collective > dump_.collectives)
        return "an entry has a higher number than there were collectives";
      const bool has_peer = entry.op == Operation::send_to || entry.op == Operation::recv_from ||
                            entry.op == Operation::send_recv;
      if (has_peer && (entry.partner < 0 || entry.partner >= dump_.world_size))
        return "an entry's peer is no rank of its world";
      if (entry.op == Operation::send_recv &&
          (entry.source < 0 || entry.source >= dump_.world_size))
        return "an entry's source is no rank of its world";
      entry.submitted += dump_.origin;
      if (entry.ended != 0) entry.ended += dump_.origin;
    }
    dump_.dumped += dump_.origin;
    return nullptr;
  }

 private:
  Dump& dump_;
  Root root_;
  Section section_ = Section::root;
  bool is_list_ = false;
  bool is_entry_ = false;
  int depth_ = 0;
  std::string key_;
};

Status bad(const std::string& file, std::size_t offset, const std::string& why) {
  return make_error(StatusCode::invalid_argument, 0, "%s: byte %zu: %s", file.c_str(), offset,
                    why.c_str());
}

}  // namespace

Result<Dump> parse_dump(std::string_view text, const std::string& file) {
  Dump dump;
  dump.file = file;
  Handler handler(dump);
  const char* furthest = text.data();
  const Cursor begin{text.data(), &furthest};
  const Cursor end{text.data() + text.size(), &furthest};
  const bool is_sound = nlohmann::json::sax_parse(begin, end, &handler);
  const auto offset = static_cast<std::size_t>(furthest - text.data());
  if (!is_sound) {
    const std::size_t last = text.find_last_not_of(" \t\r\n");
    const bool is_cut = last == text.npos || text[last] != '}';
    if (is_cut && offset == text.size() && handler.where != 0)
      handler.why = "it ends in the middle: the file is not whole";
    return bad(file, handler.where != 0 ? std::min(handler.where, text.size()) : offset,
               handler.why);
  }
  if (const char* problem = handler.finish(); problem != nullptr) return bad(file, offset, problem);
  return dump;
}

Result<Dump> read_dump(const std::string& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rbe"),
                                                               std::fclose);
  struct stat about {};
  if (stream == nullptr || ::fstat(::fileno(stream.get()), &about) != 0)
    return make_error(StatusCode::invalid_argument, errno, "%s: cannot be read: %s", file.c_str(),
                      std::strerror(errno));
  // Not from a pipe, which might have no end.
  if (!S_ISREG(about.st_mode)) return bad(file, 0, "not a file");
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size > kLargestFile) return bad(file, kLargestFile, "larger than any dump");
  std::string text(size, '\0');
  const std::size_t got = std::fread(text.data(), 1, size, stream.get());
  if (got != size) return bad(file, got, "cannot be read to its end");
  return parse_dump(text, file);
}

}  // namespace comm::trace
