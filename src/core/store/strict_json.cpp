#include "core/store/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/store/foreign_format.h"
#include "core/store/wording.h"
#include "kha/core/error.h"

namespace kha {

using nlohmann::json;

namespace {

constexpr std::size_t deepest = 100;
constexpr const char* anew = "download, copy or write it again";

// Foremost the pointers and error pages that stand in the place of a file of the same name.
void refuse_foreign(std::string_view text, const std::filesystem::path& path,
                    const std::string& kind) {
  if (text.empty()) {
    fail({.what = kind + " is an empty file",
          .where = path.string(),
          .cause = "an unfinished download or copy, or a full disk",
          .next = anew});
  }
  const auto foreign = recognise_foreign_format(std::as_bytes(std::span(text.data(), text.size())));
  if (text.starts_with('{') || !foreign) return;
  // What helps where weights were wanted, such as converting them, does not help here.
  const bool of_weights = foreign->next.find("safetensors") != std::string::npos;
  fail({.what = kind + " is no JSON file",
        .where = path.string(),
        .expected = "JSON",
        .found = foreign->name,
        .next = of_weights ? anew : foreign->next});
}

}  // namespace

void refuse_deep_json(std::string_view text, const std::string& where) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++at;
    if (in_string) continue;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth <= deepest) continue;
    fail({.what = "the JSON file is nested too deeply",
          .where = where + ", byte " + std::to_string(at),
          .expected = "at most " + std::to_string(deepest) + " levels",
          .cause = "the file is damaged, or was made to break programs that read it"});
  }
}

json parse_strict_json(std::string_view text, const std::filesystem::path& path,
                       const std::string& kind) {
  refuse_foreign(text, path, kind);
  refuse_deep_json(text, path.string());
  std::vector<std::set<std::string>> open_objects;
  const auto reject_repeats = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second) {
        fail({.what = kind + " has the key `" + shown(key) + "` twice",
              .where = path.string(),
              .next = "keep one of the two entries"});
      }
    }
    return true;
  };
  json value;
  try {
    value = json::parse(text, reject_repeats);
  } catch (const json::parse_error& error) {
    fail({.what = kind + " is not valid JSON",
          .where = path.string() + ", byte " + std::to_string(error.byte),
          .found = shown(error.what()),
          .cause = "the file is cut or was edited by hand",
          .next = anew});
  } catch (const json::out_of_range& error) {
    fail({.what = kind + " holds a number that is too large",
          .where = path.string(),
          .found = shown(error.what()),
          .next = "correct the number"});
  }
  if (!value.is_object()) {
    fail({.what = kind + " is not a JSON object",
          .where = path.string(),
          .found = value.type_name(),
          .next = anew});
  }
  return value;
}

}  // namespace kha
