#include "kha/core/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/thrown.h"

namespace kha::test {
namespace {

TEST(TemporaryFolder, IsThereWhileItsObjectIsAndGoesWithItsFiles) {
  std::filesystem::path path;
  {
    const TemporaryFolder folder("test");
    path = folder.path();
    std::ofstream(path / "file") << "text";
    EXPECT_TRUE(std::filesystem::exists(path / "file"));
    EXPECT_TRUE(path.filename().string().starts_with("kha-test-"));
    EXPECT_NE(TemporaryFolder("test").path(), path);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, APlaceThatIsNoneIsSaid) {
  const char* const kept = std::getenv("TMPDIR");
  const std::string before = kept ? kept : "";
  setenv("TMPDIR", "/nowhere/at/all", 1);
  const std::string text = thrown([] { TemporaryFolder("test"); });
  kept ? setenv("TMPDIR", before.c_str(), 1) : unsetenv("TMPDIR");
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("cannot make a temporary folder"),
                                   testing::HasSubstr("set TMPDIR to a folder")));
}

}  // namespace
}  // namespace kha::test
