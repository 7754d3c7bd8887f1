// The "normalizer" of a tokenizer.json: what is done to a text before it is split.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/json_field.h"

namespace kha {

class TextNormaliser {
 public:
  TextNormaliser() = default;
  explicit TextNormaliser(const JsonField& field);  // null does nothing

  // `storage` holds the result where it is another text.
  std::string_view apply(std::string_view text, std::string& storage) const;

 private:
  using Step = std::function<std::string(std::string_view)>;
  void add(const JsonField& field);

  bool only_nfc_ = false;
  std::vector<Step> steps_;
};

}  // namespace kha
