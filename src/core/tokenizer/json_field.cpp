#include "core/tokenizer/json_field.h"

#include "core/store/wording.h"
#include "kha/core/error.h"

namespace kha {
namespace {

const JsonField::Json missing;

}  // namespace

JsonField JsonField::at(std::string_view key) const {
  const std::string name(key);
  const auto found = value_.is_object() ? value_.find(name) : value_.end();
  const bool there = value_.is_object() && found != value_.end();
  return {there ? *found : missing, file_, path_ + "/" + name};
}

JsonField JsonField::at(std::size_t index) const {
  return {value_.at(index), file_, path_ + "/" + std::to_string(index)};
}

std::string JsonField::where() const { return file_ + " at " + (path_.empty() ? "/" : path_); }

std::string JsonField::text() const {
  if (!value_.is_string()) refuse("the value is of another type", "a text");
  return value_.get<std::string>();
}

std::string JsonField::text(std::string_view otherwise) const {
  return is_null() ? std::string(otherwise) : text();
}

bool JsonField::flag(bool otherwise) const {
  if (is_null()) return otherwise;
  if (!value_.is_boolean()) refuse("the value is of another type", "true or false");
  return value_.get<bool>();
}

std::int64_t JsonField::number() const {
  if (!value_.is_number_integer()) refuse("the value is of another type", "a whole number");
  return value_.get<std::int64_t>();
}

const JsonField& JsonField::array() const {
  if (!value_.is_array()) refuse("the value is of another type", "a list");
  return *this;
}

const JsonField& JsonField::object() const {
  if (!value_.is_object()) refuse("the value is of another type", "an object");
  return *this;
}

std::string JsonField::type() const { return object().at("type").text(); }

void JsonField::refuse(const std::string& what, const std::string& expected) const {
  fail({.what = "the tokenizer cannot be read: " + what,
        .where = where(),
        .expected = expected,
        .found = is_null() ? "nothing" : shown(value_.dump())});
}

}  // namespace kha
