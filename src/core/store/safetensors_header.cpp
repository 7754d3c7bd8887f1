#include "core/store/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "core/store/plain_header.h"
#include "core/store/wording.h"
#include "kha/core/error.h"

namespace kha {
namespace {

using nlohmann::json;

// Where the reader stands: outside, between tensors, inside one of the values.
enum class Place { outside, top, tensor, metadata, shape, offsets, done };

// Receives the tokens of the header. A document tree would let the later of two equal names win, so
// the names are judged as they come.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::filesystem::path& path) : path_(path) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override {
    // Some published files carry a null metadata entry.
    if (place_ == Place::top && key_ == "__metadata__") return true;
    return unexpected("null");
  }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    if (!in_array()) return unexpected(std::to_string(value));
    fail_at({.what = array_name() + " of a tensor has a negative number",
             .expected = "whole numbers from 0",
             .found = std::to_string(value)});
  }
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t, const string_t& text) override {
    if (!in_array()) return unexpected(text);
    fail_at({.what = array_name() + " of a tensor has a number that is no 64-bit whole number",
             .expected = "whole numbers from 0",
             .found = shown(text)});
  }
  bool string(string_t& value) override;
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) override {
    fail({.what = "the header of the safetensors file is not valid JSON",
          .where = path_.string() + ", byte " + std::to_string(8 + position),
          .found = shown(error.what()),
          .cause = "the file is damaged, or another program wrote it wrongly"});
  }

 private:
  bool in_array() const { return place_ == Place::shape || place_ == Place::offsets; }
  std::string array_name() const { return place_ == Place::shape ? "the shape" : "data_offsets"; }
  std::string where() const {
    std::string text = path_.string() + ", header";
    if (!tensor_.name.empty()) text += ", tensor " + shown(tensor_.name);
    if (place_ == Place::metadata) text += ", __metadata__ key " + shown(key_);
    return text;
  }
  [[noreturn]] void fail_at(Diagnosis diagnosis) const {
    diagnosis.where = where();
    fail(std::move(diagnosis));
  }
  [[noreturn]] bool unexpected(const std::string& found) const;
  std::string expectation() const;
  void begin_tensor();
  void end_tensor();

  const std::filesystem::path& path_;
  SafetensorsHeader header_;
  Place place_ = Place::outside;
  std::string key_;                         // the last key read
  std::unordered_set<std::string> names_;   // at the top level
  std::unordered_set<std::string> fields_;  // of the current tensor
  TensorInfo tensor_;
  std::vector<std::uint64_t> offsets_;
};

std::string HeaderReader::expectation() const {
  switch (place_) {
    case Place::outside:
      return "an object";
    case Place::top:
      return key_ == "__metadata__" ? "an object or null"
                                    : "an object with dtype, shape, data_offsets";
    case Place::metadata:
      return "a string";
    case Place::tensor:
      return key_ == "dtype" ? "a dtype name" : "an array of whole numbers";
    default:
      return "a whole number";
  }
}

bool HeaderReader::unexpected(const std::string& found) const {
  const bool metadata = place_ == Place::metadata;
  fail_at({.what = metadata ? "the metadata of the safetensors file has a value that is no string"
                            : "the header has a value of the wrong kind for `" + shown(key_) + "`",
           .expected = expectation(),
           .found = found,
           .next = metadata ? "write the value as a string, or remove the entry" : ""});
}

bool HeaderReader::start_object(std::size_t) {
  if (place_ == Place::outside) {
    place_ = Place::top;
  } else if (place_ == Place::top && key_ == "__metadata__") {
    place_ = Place::metadata;
  } else if (place_ == Place::top) {
    begin_tensor();
  } else {
    unexpected("an object");
  }
  return true;
}

void HeaderReader::begin_tensor() {
  place_ = Place::tensor;
  fields_.clear();
  offsets_.clear();
  tensor_ = TensorInfo{};
  tensor_.name = key_;
}

bool HeaderReader::key(string_t& name) {
  key_ = name;
  if (place_ == Place::top && !names_.insert(name).second) {
    fail({.what = "the header names `" + shown(name) + "` twice",
          .where = path_.string() + ", header",
          .expected = "each tensor name once",
          .cause = "the program that wrote the file is at fault; which entry it meant is unknown"});
  }
  if (place_ == Place::metadata && header_.metadata.contains(name)) {
    fail_at({.what = "the metadata names a key twice"});
  }
  if (place_ == Place::tensor && !fields_.insert(name).second) {
    fail_at({.what = "a tensor entry names `" + shown(name) + "` twice"});
  }
  if (place_ == Place::tensor && name != "dtype" && name != "shape" && name != "data_offsets") {
    fail_at({.what = "a tensor entry has an unknown key",
             .expected = "dtype, shape, data_offsets",
             .found = shown(name)});
  }
  return true;
}

bool HeaderReader::string(string_t& value) {
  if (place_ == Place::metadata) {
    header_.metadata.emplace(key_, value);
    return true;
  }
  if (place_ != Place::tensor || key_ != "dtype") unexpected("the string \"" + shown(value) + "\"");
  const auto dtype = dtype_from_safetensors(value);
  if (!dtype) {
    fail_at({.what = "a tensor has an unknown dtype",
             .expected = "F64, F32, F16, BF16, an integer type such as I64 or U8, BOOL, ...",
             .found = shown(value)});
  }
  tensor_.dtype = *dtype;
  return true;
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (!in_array()) return unexpected(std::to_string(value));
  if (place_ == Place::offsets) {
    offsets_.push_back(value);
    return true;
  }
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    fail_at({.what = "a dimension of a tensor is too large", .found = std::to_string(value)});
  }
  tensor_.shape.push_back(static_cast<std::int64_t>(value));
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (place_ != Place::tensor || key_ == "dtype") unexpected("an array");
  place_ = key_ == "shape" ? Place::shape : Place::offsets;
  return true;
}

bool HeaderReader::end_array() {
  place_ = Place::tensor;
  return true;
}

bool HeaderReader::end_object() {
  if (place_ == Place::tensor) end_tensor();
  place_ = place_ == Place::top ? Place::done : Place::top;
  return true;
}

void HeaderReader::end_tensor() {
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!fields_.contains(field)) {
      fail_at({.what = std::string("a tensor entry has no `") + field + "`",
               .expected = "dtype, shape and data_offsets"});
    }
  }
  if (offsets_.size() != 2) {
    fail_at({.what = "data_offsets of a tensor is no pair",
             .expected = "[begin, end]",
             .found = std::to_string(offsets_.size()) + " numbers"});
  }
  tensor_.begin = offsets_[0];
  tensor_.end = offsets_[1];
  header_.tensors.push_back(std::move(tensor_));
  tensor_ = TensorInfo{};
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text,
                                           const std::filesystem::path& path) {
  if (auto plain = scan_plain_header(text)) return std::move(*plain);
  return read_safetensors_header(text, path);
}

SafetensorsHeader read_safetensors_header(std::string_view text,
                                          const std::filesystem::path& path) {
  // The JSON library takes a zero byte for the end of its input.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    fail({.what = "the header of the safetensors file has a zero byte",
          .where = path.string() + ", byte " + std::to_string(8 + zero),
          .cause = "the file is damaged or its writing was cut off"});
  }
  HeaderReader reader(path);
  json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace kha
