#include "core/description/object_reader.h"

#include <vector>

#include "core/store/wording.h"
#include "kha/core/error.h"
#include "kha/core/nearest_name.h"

namespace kha {

using nlohmann::json;

const json* ObjectReader::find(const std::string& key) {
  known_.insert(key);
  const auto entry = object_.find(key);
  return entry == object_.end() || entry->is_null() ? nullptr : &*entry;
}

void ObjectReader::read(const std::string& key, int64_t& value) {
  const json* entry = find(key);
  if (!entry) return;
  if (!entry->is_number_integer()) wrong_type(key, "a whole number", *entry);
  value = entry->get<int64_t>();
}

void ObjectReader::read(const std::string& key, double& value) {
  const json* entry = find(key);
  if (!entry) return;
  if (!entry->is_number()) wrong_type(key, "a number", *entry);
  value = entry->get<double>();
}

void ObjectReader::read(const std::string& key, bool& value) {
  const json* entry = find(key);
  if (!entry) return;
  if (!entry->is_boolean()) wrong_type(key, "true or false", *entry);
  value = entry->get<bool>();
}

void ObjectReader::read(const std::string& key, std::string& value) {
  const json* entry = find(key);
  if (!entry) return;
  if (!entry->is_string()) wrong_type(key, "a text", *entry);
  value = entry->get<std::string>();
}

void ObjectReader::read(const std::string& key, std::optional<int64_t>& value) {
  if (!find(key)) return;
  int64_t id = 0;
  read(key, id);
  value = id;
}

void ObjectReader::require(const std::string& key, const std::string& expected) {
  if (!find(key)) refuse("`" + key + "` is missing", expected, "nothing");
}

void ObjectReader::refuse_unknown() const {
  const std::vector<std::string> names(known_.begin(), known_.end());
  for (const auto& [key, value] : object_.items()) {
    if (known_.count(key)) continue;
    fail({.what = "unknown key `" + shown(key) + "`" + did_you_mean(key, names),
          .where = where_,
          .found = shown(value.dump()),
          .next = "correct the name, or remove the key"});
  }
}

void ObjectReader::wrong_type(const std::string& key, const std::string& expected,
                              const json& found) const {
  fail({.what = "`" + key + "` has the wrong type",
        .where = where_,
        .expected = expected,
        .found = shown(found.dump()),
        .next = "correct the value, or take the file that was saved with the weights"});
}

void ObjectReader::refuse(const std::string& what, const std::string& expected,
                          const std::string& found) const {
  fail({.what = what, .where = where_, .expected = expected, .found = shown(found)});
}

}  // namespace kha
