#include "cli/text_input.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>

#include "core/data/file_list.h"
#include "core/store/text_of_file.h"

namespace kha::cli {

std::string own_text(const std::filesystem::path& model) {
  const auto tokenizer = model / "tokenizer.json";
  return (std::filesystem::exists(tokenizer) ? tokenizer : model / "config.json").string();
}

std::string read_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

std::vector<NamedText> read_texts(const std::vector<std::string>& texts,
                                  const std::vector<std::string>& paths, bool or_input) {
  std::vector<NamedText> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    all.push_back({fmt::format("--text {}", i + 1), texts[i]});
  }
  if (!paths.empty()) {
    for (const auto& listed : list_files({.paths = paths, .extensions = {}}).files) {
      all.push_back({listed.file.string(), text_of_file(listed.file)});
    }
  }
  if (all.empty() && or_input) all.push_back({"standard input", read_standard_input()});
  return all;
}

}  // namespace kha::cli
