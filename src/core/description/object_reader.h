// The keys of one JSON object of a config.json: each is read, ignored on purpose, or refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

namespace kha {

// Remembers which keys were asked for. `object` must outlive it.
class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  // Null and absent are one thing: nullptr, and the default stays.
  const nlohmann::json* find(const std::string& key);

  // Whether the key is there, null or not: to some classes absent means something else than null.
  bool has(const std::string& key) const { return object_.contains(key); }

  // Each leaves `value` as it is where there is no key, and fails for another type.
  void read(const std::string& key, int64_t& value);
  void read(const std::string& key, double& value);
  void read(const std::string& key, bool& value);
  void read(const std::string& key, std::string& value);
  void read(const std::string& key, std::optional<int64_t>& value);

  // Fails where there is no such key.
  void require(const std::string& key, const std::string& expected);

  void ignore(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  void refuse_unknown() const;

  [[noreturn]] void wrong_type(const std::string& key, const std::string& expected,
                               const nlohmann::json& found) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& expected,
                           const std::string& found) const;

  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> known_;
};

}  // namespace kha
