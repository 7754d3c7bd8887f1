#include "kha/core/checkpoint_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <chrono>
#include <random>
#include <thread>

#include "core/store/checkpoint_names.h"
#include "core/store/replace_folder.h"
#include "core/store_testing.h"
#include "kha/core/checksum.h"
#include "kha/core/fail_point.h"
#include "kha/core/safetensors.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using namespace kha::testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Two files that belong together: both hold the same word.
void fill(const fs::path& folder, const std::string& word) {
  put(folder / "model.bin", word);
  fs::create_directory(folder / "trainer");
  put(folder / "trainer/state.bin", word);
}

Checkpoint save(CheckpointStore& store, std::int64_t step, const std::string& word = "word") {
  PendingCheckpoint pending = store.begin(step);
  fill(pending.folder(), word);
  return pending.commit();
}

std::vector<std::int64_t> steps(const std::vector<Checkpoint>& list) {
  std::vector<std::int64_t> found;
  for (const Checkpoint& one : list) found.push_back(one.step);
  return found;
}

class Checkpoints : public ::testing::Test {
 protected:
  // Saves `step` in a child that dies at the fail point.
  void die_at(const char* point, std::int64_t step, const std::string& word) {
    const int code = exit_code_of_child([&] {
      ::setenv("KHA_FAIL_POINT", point, 1);
      save(store_, step, word);
      return 0;
    });
    ASSERT_EQ(code, fail_point_exit_code);
  }
  fs::path file(std::int64_t step, const std::string& name) const {
    return root_ / checkpoint_name(step) / name;
  }

  TemporaryFolder folder_;
  fs::path root_ = folder_ / "checkpoints";
  CheckpointStore store_{root_};
};

TEST_F(Checkpoints, SaveListAndLatest) {
  EXPECT_TRUE(store_.list().empty());
  EXPECT_FALSE(store_.latest().good);
  EXPECT_EQ(save(store_, 500).folder, root_ / "step-00000500");
  save(store_, 1000);
  save(store_, 123456789);
  EXPECT_THAT(steps(store_.list()), ElementsAre(500, 1000, 123456789));
  EXPECT_EQ(store_.latest().good->step, 123456789);
  EXPECT_TRUE(store_.latest().passed_over.empty());
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "step-123456789");
  EXPECT_EQ(content(root_ / "latest/trainer/state.bin"), "word");
  expect_parts(content(file(500, "MANIFEST.json")),
               {"\"version\": 1", "\"step\": 500", "\"trainer/state.bin\"", "\"size\": 4",
                to_hex(xxh3_64(raw("word")))});
  EXPECT_EQ(names_in(root_).size(), 4u);
}

TEST_F(Checkpoints, WithoutCommitNothingStays) {
  save(store_, 1);
  { fill(store_.begin(2).folder(), "word"); }
  EXPECT_THAT(names_in(root_), ::testing::UnorderedElementsAre("step-00000001", "latest"));
}

TEST_F(Checkpoints, RefusesNonsense) {
  expect_parts(message_of([&] { store_.begin(-1); }), {"a step from 0", "-1"});
  const PendingCheckpoint pending = store_.begin(3);
  expect_parts(message_of([&] { store_.begin(3); }), {"being saved already"});
  PendingCheckpoint empty = store_.begin(4);
  expect_parts(message_of([&] { empty.commit(); }), {"without files"});
  fs::create_symlink("/etc/passwd", empty.folder() / "link");
  expect_parts(message_of([&] { empty.commit(); }), {"only files and folders", "link"});
}

TEST_F(Checkpoints, FaultyOnesArePassedOverWithTheReason) {
  for (const std::int64_t step : {1, 2, 3, 4, 5, 6, 7}) save(store_, step);
  fs::remove(file(7, "MANIFEST.json"));
  put(file(6, "model.bin"), "longer word");
  put(file(5, "trainer/state.bin"), "weird");
  put(file(4, "trainer/state.bin"), "sord");
  fs::remove(file(3, "model.bin"));
  put(file(2, "MANIFEST.json"), content(file(2, "MANIFEST.json")).substr(0, 60));
  const LatestCheckpoint latest = store_.latest();
  ASSERT_TRUE(latest.good);
  EXPECT_EQ(latest.good->step, 1);
  ASSERT_EQ(latest.passed_over.size(), 6u);
  EXPECT_EQ(latest.passed_over[0].folder, root_ / "step-00000007");
  expect_parts(latest.passed_over[0].reason, {"incomplete", "no MANIFEST.json"});
  expect_parts(latest.passed_over[1].reason, {"size differs", "model.bin has 11 bytes", "says 4"});
  expect_parts(latest.passed_over[2].reason, {"size differs", "trainer/state.bin"});
  expect_parts(latest.passed_over[3].reason, {"checksum differs", "trainer/state.bin"});
  expect_parts(latest.passed_over[4].reason, {"incomplete", "model.bin is absent"});
  expect_parts(latest.passed_over[5].reason, {"MANIFEST.json cannot be read", "not valid JSON"});
  EXPECT_THAT(steps(store_.list()), ElementsAre(1, 4));  // sizes alone do not show the fault of 4
  expect_parts(message_of([&] { verify(root_ / "step-00000004"); }),
               {"cannot be used", "step-00000004", "checksum differs", "another checkpoint"});
  expect_parts(message_of([&] { verify(root_ / "step-9"); }), {"no such checkpoint folder"});
  EXPECT_EQ(message_of([&] { verify(root_ / "step-00000001"); }), "no error");
}

TEST_F(Checkpoints, HostileManifests) {
  save(store_, 1);
  const auto fault_with = [&](const std::string& text) {
    put(file(1, "MANIFEST.json"), text);
    return find_fault(root_ / "step-00000001").value_or("none");
  };
  EXPECT_THAT(fault_with(R"({"version":1,"step":1,"files":[{"path":"../x","size":1,"xxh3":"0"}]})"),
              HasSubstr("outside the checkpoint: ../x"));
  EXPECT_THAT(
      fault_with(R"({"version":1,"step":1,"files":[{"path":"/etc/passwd","size":1,"xxh3":"0"}]})"),
      HasSubstr("outside"));
  EXPECT_THAT(fault_with(R"({"version":2,"step":1,"files":[]})"),
              HasSubstr("another version than 1"));
  EXPECT_THAT(fault_with(R"({"version":1,"step":1,"files":[]})"), HasSubstr("names no file"));
  EXPECT_THAT(fault_with(R"({"version":1,"step":1,"files":[{"path":7}]})"),
              HasSubstr("is damaged"));
  EXPECT_THAT(fault_with(R"({"version":"1","step":1})"), HasSubstr("is damaged"));
  EXPECT_THAT(fault_with("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(fault_with(""), HasSubstr("cannot be read"));
}

TEST_F(Checkpoints, AFolderUnderAnotherStepsNameIsNotUsed) {
  save(store_, 1);
  fs::copy(root_ / "step-00000001", root_ / "step-00000009", fs::copy_options::recursive);
  const LatestCheckpoint latest = store_.latest();
  EXPECT_EQ(latest.good->step, 1);
  expect_parts(latest.passed_over.at(0).reason, {"its manifest is of step 1"});
}

TEST_F(Checkpoints, FailPointsLeaveAWholeState) {
  save(store_, 1, "one");
  for (const char* point : {"before-manifest", "after-manifest"}) {
    die_at(point, 2, "two");
    const LatestCheckpoint latest = store_.latest();
    EXPECT_EQ(latest.good->step, 1);
    ASSERT_EQ(latest.passed_over.size(), 1u) << point;
    expect_parts(latest.passed_over[0].reason, {"incomplete", "cut off"});
    EXPECT_THAT(steps(store_.list()), ElementsAre(1));
    EXPECT_EQ(store_.remove_partials().size(), 1u);
  }
  die_at("before-latest", 2, "two");
  EXPECT_EQ(store_.latest().good->step, 2);
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "step-00000001");
  save(store_, 3);
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "step-00000003");
}

TEST_F(Checkpoints, PartialsOfLivingProcessesStay) {
  const PendingCheckpoint own = store_.begin(5);
  fs::create_directory(root_ / (".step-00000006." + std::to_string(::getppid()) + ".partial"));
  fs::create_directory(root_ / (".step-00000007." + std::to_string(::getpid()) + ".partial"));
  die_at("before-manifest", 8, "word");
  const auto removed = store_.remove_partials();
  ASSERT_EQ(removed.size(), 2u);  // 7 has the number of this process, but is not of this process
  EXPECT_TRUE(fs::exists(own.folder()));
  EXPECT_THAT(names_in(root_), Contains(StartsWith(".step-00000006.")));
  EXPECT_THAT(names_in(root_), Not(Contains(StartsWith(".step-00000007."))));
}

TEST_F(Checkpoints, SameStepAgainReplacesTheOlder) {
  save(store_, 1, "first");
  save(store_, 1, "second");
  EXPECT_EQ(content(file(1, "model.bin")), "second");
  EXPECT_FALSE(find_fault(root_ / "step-00000001"));
  EXPECT_THAT(names_in(root_), ::testing::UnorderedElementsAre("step-00000001", "latest"));
}

// As on a file system that cannot exchange two folders.
TEST_F(Checkpoints, ReplacingInTwoRenamesIsLoadableInBetween) {
  save(store_, 1, "first");
  const auto replace = [&] {
    CheckpointStore elsewhere(folder_ / "elsewhere");
    put_in_place(root_, save(elsewhere, 1, "second").folder, 1, false);
  };
  const int code = exit_code_of_child([&] {
    ::setenv("KHA_FAIL_POINT", "during-replace", 1);
    replace();
    return 0;
  });
  ASSERT_EQ(code, fail_point_exit_code);
  EXPECT_FALSE(fs::exists(root_ / "step-00000001"));
  EXPECT_THAT(steps(store_.list()), ElementsAre(1));
  EXPECT_EQ(content(store_.latest().good->folder / "model.bin"), "second");
  store_.remove_partials();
  EXPECT_EQ(content(file(1, "model.bin")), "second");
  fs::remove_all(folder_ / "elsewhere");
  replace();
  EXPECT_THAT(names_in(root_), ::testing::UnorderedElementsAre("step-00000001", "latest"));
}

TEST_F(Checkpoints, RetainKeepsTheLastTheRoundOnesAndTheNewestGoodOne) {
  for (std::int64_t step = 100; step <= 1000; step += 100) save(store_, step);
  EXPECT_THAT(steps(store_.retain(2, 500)), ElementsAre(100, 200, 300, 400, 600, 700, 800));
  EXPECT_THAT(steps(store_.list()), ElementsAre(500, 900, 1000));
  put(file(1000, "model.bin"), "sord");
  put(file(900, "model.bin"), "sord");
  EXPECT_TRUE(store_.retain(1, 1000).size() == 1);  // 900; 1000 is the last, 500 the newest good
  EXPECT_THAT(steps(store_.list()), ElementsAre(500, 1000));
  EXPECT_TRUE(store_.retain(0, 0).empty());
  EXPECT_EQ(names_in(root_).size(), 3u);
}

TEST_F(Checkpoints, FileSizeLimitLeavesTheOldStateAndNoPartial) {
  save(store_, 1);
  const int code = exit_code_of_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit { .rlim_cur = 8192, .rlim_max = 8192 };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of([&] {
      PendingCheckpoint pending = store_.begin(2);
      SafetensorsWriter writer(pending.folder() / "model.safetensors",
                               {{"w", DType::u8, {3'000'000}}});
      writer.write("w", std::vector<std::byte>(3'000'000));
      writer.finish();
      pending.commit();
    });
    expect_parts(message, {"may not grow", "model.safetensors", "room for 30001", "8192 bytes",
                           "nothing was changed"});
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_THAT(names_in(root_), ::testing::UnorderedElementsAre("step-00000001", "latest"));
  EXPECT_EQ(store_.latest().good->step, 1);
}

// The child of a kill test: saves for ever, every step twice, and cleans up behind itself.
[[noreturn]] void save_for_ever(const fs::path& root) {
  CheckpointStore store(root);
  const auto last = store.latest().good;
  for (std::int64_t step = last ? last->step + 1 : 1;; ++step) {
    store.remove_partials();
    save(store, step, std::string(20'000, 'a'));
    save(store, step, "step " + std::to_string(step));
    store.retain(2, 0);
  }
}

TEST_F(Checkpoints, KilledAtRandomMomentsTheLatestIsAlwaysGood) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  save(store_, 1, "step 1");
  // Up to five saves, however slow the disk is.
  const auto longest =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start) * 5;
  std::mt19937_64 random(20240607);
  std::int64_t last = 1;
  for (int round = 0; round < 50; ++round) {
    const pid_t child = ::fork();
    if (child == 0) save_for_ever(root_);
    std::this_thread::sleep_for(longest * (random() % 1000) / 1000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const LatestCheckpoint latest = store_.latest();
    ASSERT_TRUE(latest.good) << round;
    ASSERT_FALSE(find_fault(latest.good->folder)) << round;
    ASSERT_EQ(content(latest.good->folder / "model.bin"),
              content(latest.good->folder / "trainer/state.bin"));
    ASSERT_GE(latest.good->step, last) << round;
    // Under a final name there is never anything but a whole checkpoint.
    for (const PassedOver& passed : latest.passed_over) {
      ASSERT_THAT(passed.folder.filename().string(), StartsWith(".")) << passed.reason;
    }
    last = latest.good->step;
  }
  EXPECT_GT(last, 1);
  store_.remove_partials();
  for (const std::string& name : names_in(root_)) {
    EXPECT_THAT(name, Not(HasSubstr(".partial")));
    EXPECT_THAT(name, Not(HasSubstr(".removed")));
  }
}

TEST_F(Checkpoints, GoingOnFromAnOlderStepSetsLaterOnesAsideWhole) {
  for (const std::int64_t step : {2, 4, 6}) save(store_, step, "first");
  EXPECT_THAT(store_.go_on_from(2),
              ElementsAre(root_ / "aside-step-00000004", root_ / "aside-step-00000006"));
  EXPECT_EQ(store_.latest().good->step, 2);
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "step-00000002");
  EXPECT_EQ(find_fault(root_ / "aside-step-00000006"), std::nullopt);
  save(store_, 4, "second");
  EXPECT_THAT(store_.go_on_from(2), ElementsAre(root_ / "aside-step-00000004.2"));
  EXPECT_EQ(steps(store_.list()), std::vector<std::int64_t>{2});
}

TEST_F(Checkpoints, GoingOnRepairsAStaleLatest) {
  save(store_, 1);
  die_at("before-latest", 2, "word");
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "step-00000001");
  EXPECT_TRUE(store_.go_on_from(2).empty());
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "step-00000002");
}

}  // namespace
}  // namespace kha
