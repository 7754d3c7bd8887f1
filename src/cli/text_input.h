// Texts named on a command line, as they are: nothing is skipped, NUL bytes and blanks count.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kha::cli {

struct NamedText {
  std::string name;
  std::string text;
};

// `texts` first, then the files of `paths` (folders are entered) in order; standard input where
// neither names any and `or_input` is set. Throws Error for what cannot be read.
std::vector<NamedText> read_texts(const std::vector<std::string>& texts,
                                  const std::vector<std::string>& paths, bool or_input);

// A file to compare two models on where no text is named: the model's tokenizer.json, which holds
// what it was made for, or its config.json where it came without one.
std::string own_text(const std::filesystem::path& model);

std::string read_standard_input();

}  // namespace kha::cli
