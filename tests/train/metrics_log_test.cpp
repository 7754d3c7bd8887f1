#include "train/metrics_log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

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

}  // namespace
}  // namespace kha
