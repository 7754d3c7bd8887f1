#include "kha/core/command_line.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace kha {
namespace {

std::string for_a_shell(const std::string& word) {
  const std::string plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+%@";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string as_command(const std::string& words_with_nuls) {
  std::istringstream words(words_with_nuls);
  std::string text, word;
  for (bool first = true; std::getline(words, word, '\0'); first = false) {
    if (first) word = std::filesystem::path(word).filename().string();
    if (first && word == "kha-engine") word = "kha";
    text += (first ? "" : " ") + for_a_shell(word);
  }
  return text;
}

std::string command_line() {
  std::stringstream text;
  text << std::ifstream("/proc/self/cmdline", std::ios::binary).rdbuf();
  return as_command(text.str());
}

}  // namespace kha
