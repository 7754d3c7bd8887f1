#include "core/store/plain_header.h"

#include <charconv>
#include <limits>
#include <utility>

namespace kha {
namespace {

constexpr std::size_t usual_entry = 96;  // bytes, to reserve by

// Each reader leaves the front behind what it took, or answers false and leaves it anywhere.
class PlainReader {
 public:
  explicit PlainReader(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

  bool header(SafetensorsHeader& header) {
    header.tensors.reserve(static_cast<std::size_t>(end_ - at_) / usual_entry);
    bool with_metadata = false;
    const bool whole = object([&](std::string_view name) {
      if (name == "__metadata__") return !std::exchange(with_metadata, true) && metadata(header);
      header.tensors.emplace_back().name = name;
      return tensor(header.tensors.back());
    });
    skip_blanks();
    return whole && at_ == end_;
  }

 private:
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  bool mark(char wanted) {
    skip_blanks();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }

  bool text(std::string_view& found) {
    if (!mark('"')) return false;
    const char* begin = at_;
    for (; at_ != end_ && *at_ != '"'; ++at_) {
      const auto byte = static_cast<unsigned char>(*at_);
      if (byte < 0x20 || byte >= 0x7f || byte == '\\') return false;
    }
    if (at_ == end_) return false;
    found = {begin, static_cast<std::size_t>(at_ - begin)};
    ++at_;
    return true;
  }

  // JSON has no leading zeros; a fraction or an exponent fails at the mark that must follow.
  bool number(std::uint64_t& value) {
    skip_blanks();
    const char* begin = at_;
    const auto [after, error] = std::from_chars(at_, end_, value);
    if (error != std::errc()) return false;
    at_ = after;
    return *begin != '0' || after == begin + 1;
  }

  // Calls `entry` with each key; it reads the value.
  template <class Entry>
  bool object(const Entry& entry) {
    if (!mark('{')) return false;
    if (mark('}')) return true;
    do {
      std::string_view key;
      if (!text(key) || !mark(':') || !entry(key)) return false;
    } while (mark(','));
    return mark('}');
  }

  template <class Element>
  bool array(const Element& element) {
    if (!mark('[')) return false;
    if (mark(']')) return true;
    do {
      std::uint64_t value = 0;
      if (!number(value) || !element(value)) return false;
    } while (mark(','));
    return mark(']');
  }

  bool metadata(SafetensorsHeader& header) {
    return object([&](std::string_view key) {
      std::string_view value;
      return text(value) && header.metadata.emplace(key, value).second;
    });
  }

  bool tensor(TensorInfo& tensor) {
    int dtypes = 0, shapes = 0, ranges = 0;
    const bool read = object([&](std::string_view key) {
      if (key == "dtype") return ++dtypes == 1 && dtype(tensor);
      if (key == "shape") return ++shapes == 1 && shape(tensor);
      return key == "data_offsets" && ++ranges == 1 && range(tensor);
    });
    return read && dtypes + shapes + ranges == 3;
  }

  bool dtype(TensorInfo& tensor) {
    std::string_view name;
    if (!text(name)) return false;
    const auto found = dtype_from_safetensors(name);
    if (found) tensor.dtype = *found;
    return found.has_value();
  }

  bool shape(TensorInfo& tensor) {
    return array([&](std::uint64_t value) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return false;
      tensor.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    });
  }

  bool range(TensorInfo& tensor) {
    std::uint64_t count = 0;
    const bool read = array([&](std::uint64_t value) {
      (count == 0 ? tensor.begin : tensor.end) = value;
      return ++count <= 2;
    });
    return read && count == 2;
  }

  const char* at_;
  const char* end_;
};

}  // namespace

std::optional<SafetensorsHeader> scan_plain_header(std::string_view text) {
  SafetensorsHeader header;
  if (!PlainReader(text).header(header)) return std::nullopt;
  return header;
}

}  // namespace kha
