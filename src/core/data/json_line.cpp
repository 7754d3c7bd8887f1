#include "core/data/json_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/store/wording.h"

namespace kha {
namespace {

using nlohmann::json;

// The parser names itself and a place first; the cause stands behind the last of its colons.
LineFault not_json(const json::parse_error& error) {
  const std::string text = error.what();
  const std::size_t at = error.byte > 0 ? error.byte - 1 : 0;
  if (text.find("UTF-8") != std::string::npos) {
    return {"the line is not UTF-8", "text in UTF-8", "a byte that is none", at};
  }
  const std::size_t column = text.find(": ", text.find("column"));
  const std::string cause = column == std::string::npos ? text : text.substr(column + 2);
  return {"the line is not JSON", "a JSON object", shown(cause), at};
}

std::string keys_of(const json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(shown(name));
  constexpr std::size_t most = 8;
  const bool more = names.size() > most;
  if (more) names.resize(most);
  return names.empty() ? "no keys"
                       : fmt::format("{}{}", fmt::join(names, ", "), more ? ", ..." : "");
}

class Line {
 public:
  explicit Line(const json& object) : object_(object) {}

  // The text of a key; null is no text.
  std::string at(const std::string& key) {
    const auto found = object_.find(key);
    if (found == object_.end()) {
      set_fault({"the line has no key `" + key + "`", "the key `" + key + "`", keys_of(object_)});
      return {};
    }
    if (found->is_null()) return {};
    if (found->is_string()) return found->get<std::string>();
    set_fault({"`" + key + "` is not a text", "a string",
               std::string("a value of type ") + found->type_name()});
    return {};
  }

  const std::optional<LineFault>& fault() const { return fault_; }

 private:
  void set_fault(LineFault fault) {
    if (!fault_) fault_ = std::move(fault);
  }

  const json& object_;
  std::optional<LineFault> fault_;
};

}  // namespace

std::variant<LineText, LineFault> parse_line(std::string_view text, const DocumentKeys& keys) {
  json object;
  try {
    object = json::parse(text);
  } catch (const json::parse_error& error) {
    return not_json(error);
  } catch (const json::exception& error) {  // a number beyond any range
    return LineFault{"the line is not JSON", "a JSON object", shown(error.what())};
  }
  if (!object.is_object()) {
    return LineFault{"the line is not a JSON object", "an object with the document's text",
                     std::string("a value of type ") + object.type_name()};
  }
  Line line(object);
  LineText result;
  if (keys.with_prompt()) result.prompt = line.at(keys.prompt);
  result.text = line.at(keys.with_prompt() ? keys.answer : keys.text);
  if (line.fault()) return *line.fault();
  result.empty = result.text.find_first_not_of(" \t\r\n\v\f") == std::string::npos;
  return result;
}

}  // namespace kha
