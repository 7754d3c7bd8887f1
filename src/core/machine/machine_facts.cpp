#include "kha/core/machine_facts.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace kha {
namespace {

std::string read_whole(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

std::int64_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? std::int64_t{pages} * page : 0;
}

}  // namespace

std::string cpu_model(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "unknown";
}

std::string chosen_in_brackets(const std::string& setting) {
  const auto open = setting.find('['), close = setting.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "unknown";
  return setting.substr(open + 1, close - open - 1);
}

MachineFacts machine_facts() {
  return {
      .cpu = cpu_model(read_whole("/proc/cpuinfo")),
      .cores = usable_cores(),
      .memory = memory_bytes(),
      .huge_pages = chosen_in_brackets(read_whole("/sys/kernel/mm/transparent_hugepage/enabled"))};
}

}  // namespace kha
