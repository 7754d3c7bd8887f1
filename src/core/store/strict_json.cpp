#include "core/store/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/store/wording.h"
#include "kha/core/error.h"

namespace kha {

using nlohmann::json;

json parse_strict_json(std::string_view text, const std::filesystem::path& path,
                       const std::string& kind) {
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
          .cause = "the file is cut or was edited by hand"});
  }
  if (!value.is_object()) {
    fail({.what = kind + " is not a JSON object",
          .where = path.string(),
          .found = value.type_name()});
  }
  return value;
}

}  // namespace kha
