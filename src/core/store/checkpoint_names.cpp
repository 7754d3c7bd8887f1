#include "core/store/checkpoint_names.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <tuple>

#include "core/store/file_errors.h"

namespace kha {
namespace {

namespace fs = std::filesystem;

// Takes a decimal number from the front of `text`.
template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

std::optional<NamedFolder> parse_named(const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::string_view rest = name;
  NamedFolder found{.folder = folder};
  if (!take_text(rest, "step-") || !take_number(rest, found.step)) return std::nullopt;
  found.replacing = rest == ".new";
  // Only the spelling that the store writes: no second name for one step.
  const std::string spelt =
      found.replacing ? replacing_name(found.step) : checkpoint_name(found.step);
  return name == spelt ? std::optional(found) : std::nullopt;
}

std::optional<HiddenFolder> parse_hidden(const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::string_view rest = name;
  HiddenFolder found{.folder = folder};
  if (!take_text(rest, ".step-") || !take_number(rest, found.step)) return std::nullopt;
  if (!take_text(rest, ".") || !take_number(rest, found.process)) return std::nullopt;
  return rest == ".partial" || rest == ".removed" ? std::optional(found) : std::nullopt;
}

template <class Found>
std::vector<Found> folders_in(const fs::path& root,
                              std::optional<Found> (*parse)(const fs::path&)) {
  std::vector<Found> found;
  std::error_code error;
  fs::directory_iterator entry(root, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (!fs::is_directory(entry->symlink_status(gone))) continue;
    if (auto parsed = parse(entry->path())) found.push_back(std::move(*parsed));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail_folder("cannot list the checkpoints", root, error.value());
  }
  return found;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:08d}", step); }

std::string replacing_name(std::int64_t step) { return checkpoint_name(step) + ".new"; }

std::string hidden_name(std::int64_t step, const std::string& role) {
  return fmt::format(".{}.{}.{}", checkpoint_name(step), ::getpid(), role);
}

std::vector<NamedFolder> checkpoint_folders(const fs::path& root) {
  std::vector<NamedFolder> found = folders_in(root, parse_named);
  std::sort(found.begin(), found.end(), [](const NamedFolder& a, const NamedFolder& b) {
    return std::tie(a.step, a.replacing) < std::tie(b.step, b.replacing);
  });
  return found;
}

std::vector<HiddenFolder> hidden_folders(const fs::path& root) {
  return folders_in(root, parse_hidden);
}

}  // namespace kha
