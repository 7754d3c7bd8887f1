#include "core/data/text_counts.h"

#include <utf8proc.h>

#include <algorithm>

namespace kha {
namespace {

std::int64_t count_invalid(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::int64_t invalid = 0;
  for (utf8proc_ssize_t i = 0; i < size;) {
    if (bytes[i] < 0x80) {
      ++i;
      continue;
    }
    utf8proc_int32_t character;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + i, size - i, &character);
    invalid += length <= 0;
    i += std::max<utf8proc_ssize_t>(length, 1);
  }
  return invalid;
}

}  // namespace

void count_text(std::string_view text, bool begins, TextCounts& counts) {
  counts.carriage_returns += std::ranges::count(text, '\r');
  counts.byte_order_marks += begins && text.starts_with("\xEF\xBB\xBF");
  counts.invalid_bytes += count_invalid(text);
}

}  // namespace kha
