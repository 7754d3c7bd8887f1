#include "cli/measured_text.h"

#include <fmt/format.h>

namespace kha::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string round_in_words(const Json& round) {
  return fmt::format("{} faults and {:.1f} ms", round.at("faults").get<int64_t>(),
                     1e3 * round.at("seconds").get<double>());
}

}  // namespace

std::string measured_in_words(const Json& engine) {
  const Json &ceiling = engine.at("ceiling"), &rounds = engine.at("allocator_round");
  std::string text = fmt::format(
      "ceiling      {:.0f} GFLOP/s on one thread, {:.0f} on {} (fp32 multiply-adds in registers, "
      "{})\n",
      ceiling.at("one_thread_gflops").get<double>(), ceiling.at("all_threads_gflops").get<double>(),
      ceiling.at("threads").get<int>(), ceiling.at("instruction_set").get<std::string>());
  text += fmt::format("             memory is read at {:.1f} GB/s\n",
                      engine.at("read_bandwidth").get<double>() / 1e9);
  text += fmt::format(
      "allocator    {}; 16 tensors of 4 MB taken, written and freed again cost\n"
      "             {} with the caching one, {} with the system's\n",
      engine.at("allocator").get<std::string>(), round_in_words(rounds.at("caching")),
      round_in_words(rounds.at("system")));
  return text;
}

}  // namespace kha::cli
