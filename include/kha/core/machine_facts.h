// What the machine says of itself, for reports of what a figure was measured on.
#pragma once

#include <cstdint>
#include <string>

namespace kha {

struct MachineFacts {
  std::string cpu;          // model name; "unknown" where the system does not say
  int cores = 1;            // that this process may use
  std::int64_t memory = 0;  // bytes; 0: unknown
  // The kernel's setting for transparent huge pages: "always", "madvise", "never" or "unknown".
  std::string huge_pages;
};

MachineFacts machine_facts();

// Of /proc/cpuinfo: the first processor's "model name".
std::string cpu_model(const std::string& cpuinfo);
// "always [madvise] never" -> "madvise".
std::string chosen_in_brackets(const std::string& setting);

}  // namespace kha
