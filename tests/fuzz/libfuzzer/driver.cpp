// libFuzzer's way in: KHA_FUZZ names the target.
#include <cstdio>
#include <cstdlib>

#include "fuzz/targets.h"

namespace {

const kha::fuzz::Target& chosen() {
  static const kha::fuzz::Target* target = [] {
    const char* name = std::getenv("KHA_FUZZ");
    const auto* found = kha::fuzz::find_target(name ? name : "");
    if (!found) {
      std::fprintf(stderr, "KHA_FUZZ must name one of:");
      for (const auto& each : kha::fuzz::targets()) std::fprintf(stderr, " %s", each.name.c_str());
      std::fprintf(stderr, "\n");
      std::exit(2);
    }
    return found;
  }();
  return *target;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen().read({data, size});
  return 0;
}
