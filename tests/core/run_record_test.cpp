#include "kha/core/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/thrown.h"
#include "kha/core/temporary_folder.h"

namespace kha {
namespace {

using testing::HasSubstr;

class RunRecord : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name) << text;
  }
  const std::filesystem::path& run() const { return folder_.path(); }

 private:
  TemporaryFolder folder_{"test"};
};

TEST_F(RunRecord, TakesEveryStepWhereTheyAre) {
  write("metrics.jsonl", "{\"step\":10,\"train/loss\":9.5}\n");
  write(
      "steps.jsonl",
      "{\"step\":1,\"loss\":5.5,\"grad_norm\":0.25}\n{\"step\":2,\"loss\":null,\"grad_norm\":1}\n");
  const StepSeries series = read_step_series(run());
  EXPECT_EQ(series.file.filename(), "steps.jsonl");
  ASSERT_EQ(series.steps.size(), 2u);
  EXPECT_EQ(series.steps[0].loss, 5.5);
  EXPECT_EQ(series.steps[0].grad_norm, 0.25);
  EXPECT_TRUE(std::isnan(series.steps[1].loss)) << "null: it was not finite";
  EXPECT_EQ(series.stride(), 1);
}

TEST_F(RunRecord, ReadsTheLoggedStepsOfAnOlderRun) {
  std::string lines = "{\"step\":0,\"tokens\":0,\"run/commit\":\"abc\"}\n";
  for (int step = 20; step <= 200; step += 20) {
    lines += "{\"step\":" + std::to_string(step) + ",\"train/loss\":2.5}\n";
    if (step % 100 == 0) lines += "{\"step\":" + std::to_string(step) + ",\"val/loss\":2.6}\n";
  }
  write("metrics.jsonl", lines);
  const StepSeries series = read_step_series(run());
  EXPECT_EQ(series.file.filename(), "metrics.jsonl");
  EXPECT_EQ(series.steps.size(), 10u);
  EXPECT_FALSE(series.steps[0].grad_norm.has_value());
  EXPECT_EQ(series.stride(), 20);
  EXPECT_TRUE(read_every_step(run()).empty());
}

TEST_F(RunRecord, AHalfWrittenLastLineIsLeftOut) {
  write("steps.jsonl", "{\"step\":1,\"loss\":5}\n{\"step\":2,\"lo");
  EXPECT_EQ(read_step_series(run()).steps.size(), 1u);
}

TEST_F(RunRecord, BadFilesAreSaid) {
  EXPECT_THAT(thrown([&] { read_step_series(run()); }), HasSubstr("there is no run here"));
  write("metrics.jsonl", "{\"step\":1,\"tokens\":5}\n");
  EXPECT_THAT(thrown([&] { read_step_series(run()); }), HasSubstr("has logged no loss yet"));
  write("metrics.jsonl", "{\"step\":1,\"train/loss\":5}\nnonsense\n{\"step\":2}\n");
  EXPECT_THAT(thrown([&] { read_step_series(run()); }),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("not a JSON object")));
  write("metrics.jsonl", "{\"step\":2,\"train/loss\":5}\n{\"step\":2,\"train/loss\":5}\n");
  EXPECT_THAT(thrown([&] { read_step_series(run()); }), HasSubstr("do not rise"));
}

TEST_F(RunRecord, AComparisonIsSaidToBeOne) {
  std::filesystem::create_directories(run() / "arms");
  EXPECT_THAT(thrown([&] { read_step_series(run()); }),
              testing::AllOf(HasSubstr("a comparison"), HasSubstr("name its arms")));
}

TEST_F(RunRecord, SpikeLinesAndWhatTheyLeftOut) {
  EXPECT_TRUE(read_spike_entries(run()).empty());
  write("metrics.jsonl",
        "{\"step\":7,\"spike/action\":\"note\",\"spike/at\":7,\"spike/left_out\":0}\n"
        "{\"step\":10,\"train/loss\":2}\n"
        "{\"step\":10,\"spike/action\":\"back\",\"spike/at\":14,\"spike/left_out\":4}\n"
        "{\"step\":10,\"spike/action\":\"back\",\"spike/at\":12,\"spike/left_out\":6}\n"
        "{\"step\":30,\"spike/action\":7,\"spike/left_out\":\"many\"}\n");
  const auto entries = read_spike_entries(run());
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].action, "note");
  EXPECT_EQ(entries[1].at, 14);
  EXPECT_EQ(batches_left_out_at(run(), 10), 6) << "the last return to that step counts";
  EXPECT_EQ(batches_left_out_at(run(), 20), 0);
}

TEST_F(RunRecord, ReturnsOfTheseSettingsAreCounted) {
  write("metrics.jsonl",
        "{\"step\":5,\"spike/action\":\"back\",\"spike/at\":9,\"spike/lr\":0.9}\n"
        "{\"step\":5,\"spike/action\":\"back\",\"spike/at\":7,\"spike/lr\":0.07}\n"
        "{\"step\":5,\"spike/action\":\"stop\",\"spike/at\":7,\"spike/lr\":0.07}\n"
        "{\"step\":10,\"spike/action\":\"skip\",\"spike/at\":10,\"spike/lr\":0.1}\n"
        "{\"step\":10,\"spike/action\":\"back\",\"spike/at\":12}\n"
        "{\"step\":10,\"spike/action\":\"back\",\"spike/at\":14,\"spike/lr\":0.14}\n");
  const auto rate = [](int64_t step) { return 0.01 * static_cast<double>(step); };
  const auto returns = returns_to(run(), rate);
  EXPECT_EQ(returns, (std::map<int64_t, int64_t>{{5, 1}, {10, 2}}));
}

}  // namespace
}  // namespace kha
