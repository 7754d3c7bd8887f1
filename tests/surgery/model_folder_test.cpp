#include "kha/core/model_folder.h"

#include <gmock/gmock.h>

#include "core/thrown.h"
#include "kha/core/checkpoint_store.h"
#include "surgery/tiny_model.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const fs::path& named) {
  return thrown([&] { resolve_model_folder(named); });
}

void save_step(const fs::path& run, int64_t step) {
  CheckpointStore store(run / "checkpoints");
  auto pending = store.begin(step);
  write_text(pending.folder() / "config.json", "{}");
  pending.commit();
}

TEST(ModelFolder, AModelIsItself) {
  TempFolder folder;
  write_text(folder / "config.json", "{}");
  EXPECT_EQ(resolve_model_folder(folder.path()), folder.path());
}

TEST(ModelFolder, ARunMeansItsLatestStep) {
  TempFolder run;
  save_step(run.path(), 5);
  save_step(run.path(), 20);
  EXPECT_EQ(resolve_model_folder(run.path()), run / "checkpoints/step-00000020");
  EXPECT_EQ(resolve_model_folder(run / "checkpoints/step-00000005"),
            run / "checkpoints/step-00000005");
  EXPECT_EQ(resolve_model_folder(run / "checkpoints/latest"), run / "checkpoints/latest");
}

TEST(ModelFolder, WhatIsNoModelIsRefused) {
  TempFolder folder;
  fs::create_directories(folder / "my-run/checkpoints");
  EXPECT_THAT(refusal(folder / "absent"),
              AllOf(HasSubstr("there is no model here"), HasSubstr("no such folder")));
  EXPECT_THAT(refusal(folder / "my-run"), HasSubstr("this run has no complete checkpoint"));
  EXPECT_THAT(refusal(folder.path()),
              AllOf(HasSubstr("there is no model here"), HasSubstr("neither")));
  write_text(folder / "model.gguf", "GGUF");
  EXPECT_THAT(refusal(folder / "model.gguf"),
              AllOf(HasSubstr("a file stands where"), HasSubstr("a GGUF file"),
                    HasSubstr("the folder of the safetensors model")));
  write_text(folder / "model.safetensors", "x");
  EXPECT_THAT(refusal(folder / "model.safetensors"),
              AllOf(HasSubstr("a file stands where"), HasSubstr("give its folder")));
}

}  // namespace
}  // namespace kha
