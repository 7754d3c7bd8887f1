#include "kha/core/captured_run.h"

#include <gmock/gmock.h>

#include "core/thrown.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CapturedRun shell(const std::string& script) { return run_captured("/bin/sh", {"-c", script}); }

TEST(CapturedRun, KeepsBothOutputsApart) {
  const CapturedRun run = shell("echo one; echo two >&2; echo three");
  EXPECT_EQ(run.output, "one\nthree\n");
  EXPECT_EQ(run.errors, "two\n");
  EXPECT_EQ(run.exit_code, 0);
}

TEST(CapturedRun, TellsHowItEnded) {
  EXPECT_EQ(shell("exit 3").exit_code, 3);
  EXPECT_EQ(shell("kill -TERM $$").exit_code, 128 + 15);
}

TEST(CapturedRun, TakesMoreThanAPipeHolds) {
  const CapturedRun run = shell("head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero");
  EXPECT_EQ(run.output.size(), 300000u);
  EXPECT_EQ(run.errors.size(), 300000u);
}

TEST(CapturedRun, AProgramThatIsNotThere) {
  const std::string text = thrown([] { run_captured("/nowhere/kha-engine", {}); });
  EXPECT_THAT(text, AllOf(HasSubstr("cannot start"), HasSubstr("/nowhere/kha-engine"),
                          HasSubstr("No such file")));
}

}  // namespace
}  // namespace kha
