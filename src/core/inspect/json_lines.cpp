#include "core/inspect/json_lines.h"

#include <fmt/format.h>

#include <fstream>

#include "kha/core/error.h"

namespace kha {

void for_each_json_line(const std::filesystem::path& path,
                        const std::function<void(const nlohmann::json&)>& take) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    fail({.what = "cannot read the lines of the run", .where = path.string()});
  }
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object()) {
      take(json);
      continue;
    }
    if (file.eof() || line.empty()) continue;  // eof: no end of line behind it
    fail({.what = "this line is not a JSON object",
          .where = fmt::format("{}, line {}", path.string(), number),
          .found = line.substr(0, 60),
          .cause = "the file was edited, or is not one that a run writes"});
  }
}

}  // namespace kha
