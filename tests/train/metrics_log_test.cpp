#include "train/metrics_log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <sstream>

namespace kha {
namespace {

class Metrics : public ::testing::Test {
 protected:
  Metrics() {
    std::string name = (std::filesystem::temp_directory_path() / "kha-metrics-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Metrics() override { std::filesystem::remove_all(folder_); }

  std::string text(const std::string& name) const {
    std::stringstream out;
    out << std::ifstream(folder_ / name).rdbuf();
    return out.str();
  }
  std::filesystem::path folder_;
};

TEST_F(Metrics, ContinuesBehindTheStepAndKeepsTheRestAside) {
  {
    MetricsLog log(folder_, 0);
    for (int step = 1; step <= 4; ++step) log.write({{"step", step}});
  }
  MetricsLog log(folder_, 2);
  log.write({{"step", 3}, {"again", true}});
  EXPECT_EQ(text("metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"again\":true}\n");
  EXPECT_EQ(text("metrics.after-step-2.jsonl"), "{\"step\":3}\n{\"step\":4}\n");
}

TEST_F(Metrics, HalfALineIsDropped) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"step\":1}\n{\"step\":2,\"train/lo";
  MetricsLog(folder_, 5).write({{"step", 6}});
  EXPECT_EQ(text("metrics.jsonl"), "{\"step\":1}\n{\"step\":6}\n");
}

TEST_F(Metrics, EventsHaveEachTagOnceAStep) {
  const auto size = [&] {
    const auto entry = *std::filesystem::directory_iterator(folder_ / "tb");
    return std::filesystem::file_size(entry);
  };
  MetricsLog log(folder_, 0, true);
  log.write({{"step", 1}, {"tokens", 64}, {"train/loss", 2.0}});
  const auto before = size();
  log.write({{"step", 1}, {"tokens", 64}});
  log.write({{"step", 1}, {"run/threads", 2}, {"val/loss", NAN}, {"name", "x"}});
  EXPECT_EQ(size(), before);
  log.write({{"step", 1}, {"kha/condition", {{"0.v.T", 1.5}, {"1.v.T", nullptr}}}});
  EXPECT_GT(size(), before);
}

TEST_F(Metrics, NoEventsUnlessAsked) {
  MetricsLog(folder_, 0).write({{"step", 1}, {"tokens", 64}});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tb"));
}

}  // namespace
}  // namespace kha
