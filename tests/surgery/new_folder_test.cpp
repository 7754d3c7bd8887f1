#include "core/surgery/new_folder.h"

#include <gmock/gmock.h>

#include "core/thrown.h"
#include "surgery/tiny_model.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(NewFolder, AppearsWholeOnCommit) {
  TempFolder root;
  NewFolder folder(root / "model");
  write_text(folder.folder() / "a", "1");
  EXPECT_FALSE(fs::exists(root / "model"));
  folder.commit();
  EXPECT_EQ(read_text(root / "model/a"), "1");
  EXPECT_EQ(std::distance(fs::directory_iterator(root.path()), {}), 1);
}

TEST(NewFolder, WithoutCommitNothingIsLeft) {
  TempFolder root;
  { NewFolder folder(root / "model"); }
  EXPECT_TRUE(fs::is_empty(root.path()));
}

TEST(NewFolder, NeverReplacesWhatIsThere) {
  TempFolder root;
  write_text(root / "model", "a file");
  EXPECT_THAT(thrown([&] { NewFolder folder(root / "model"); }), HasSubstr("exists already"));
  EXPECT_EQ(read_text(root / "model"), "a file");
}

TEST(NewFolder, NorWhatAppearedMeanwhile) {
  TempFolder root;
  {
    NewFolder folder(root / "model");
    fs::create_directory(root / "model");
    EXPECT_THAT(thrown([&] { folder.commit(); }), HasSubstr("exists already"));
  }
  EXPECT_TRUE(fs::is_empty(root / "model"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root.path()), {}), 1);
}

}  // namespace
}  // namespace kha
