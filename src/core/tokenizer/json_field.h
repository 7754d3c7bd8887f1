// A value of a tokenizer.json that knows where it stands, so that what is wrong or not understood
// is named by file and JSON path.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kha {

class JsonField {
 public:
  using Json = nlohmann::ordered_json;

  JsonField(const Json& value, std::string file, std::string path)
      : value_(value), file_(std::move(file)), path_(std::move(path)) {}

  const Json& value() const { return value_; }
  bool is_null() const { return value_.is_null(); }
  // Missing keys are null.
  JsonField at(std::string_view key) const;
  JsonField at(std::size_t index) const;
  std::size_t size() const { return value_.size(); }
  // "FILE at /pre_tokenizer/pattern"
  std::string where() const;

  // Each throws Error when the value is of another type; those with `otherwise` take null for it.
  std::string text() const;
  std::string text(std::string_view otherwise) const;
  bool flag(bool otherwise) const;
  std::int64_t number() const;
  const JsonField& array() const;
  const JsonField& object() const;
  std::string type() const;  // of an object with a key "type"

  [[noreturn]] void refuse(const std::string& what, const std::string& expected) const;

 private:
  const Json& value_;
  std::string file_;
  std::string path_;
};

}  // namespace kha
