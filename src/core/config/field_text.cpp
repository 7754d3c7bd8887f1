#include "core/config/field_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kha {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string number_text(double value) {
  const std::string text = fmt::format("{}", value);  // shortest text that reads back equal
  const bool whole = text.find_first_of(".en") == std::string::npos;
  return whole ? text + ".0" : text;
}

std::string value_text(const FieldValue& value) {
  struct Print {
    std::string operator()(const int64_t* v) const { return std::to_string(*v); }
    std::string operator()(const double* v) const { return number_text(*v); }
    std::string operator()(const bool* v) const { return *v ? "true" : "false"; }
    std::string operator()(const std::string* v) const { return quoted(*v); }
    std::string operator()(const std::vector<double>* v) const {
      std::vector<std::string> parts;
      for (const double each : *v) parts.push_back(number_text(each));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    std::string operator()(const std::vector<std::string>* v) const {
      std::vector<std::string> parts;
      for (const auto& each : *v) parts.push_back(quoted(each));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
  };
  return std::visit(Print{}, value);
}

}  // namespace kha
