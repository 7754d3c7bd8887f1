#include "kha/core/text_source.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "data/text_files.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const TextSource& source) {
  std::vector<std::string> result;
  for (const TextDocument& document : source.documents) result.push_back(document.relative_path);
  return result;
}

class TextSourceTest : public TextFiles {
 protected:
  TextSource collect(const std::string& given, std::vector<std::string> extensions = {}) const {
    return collect_text({.paths = {path(given)}, .extensions = std::move(extensions)});
  }
  std::string refusal(const std::string& given, std::vector<std::string> extensions = {}) const {
    return message_of([&] { collect(given, extensions); });
  }
};

TEST_F(TextSourceTest, OrdersDocumentsByRelativePathBytewise) {
  for (const char* name : {"t/b.txt", "t/a/z.txt", "t/a-b.txt", "t/B.txt", "t/\xc3\xa4.txt"}) {
    add(name, "text");
  }
  EXPECT_THAT(names(collect("t")),
              ElementsAre("B.txt", "a-b.txt", "a/z.txt", "b.txt", "\xc3\xa4.txt"));
}

TEST_F(TextSourceTest, CountsWhatItSkips) {
  add("t/good.txt", "text");
  add("t/empty.txt", "");
  add("t/blank.txt", " \n\t\r\n");
  add("t/binary.txt", std::string("a\0b", 3));
  add("t/notes.md", "text");
  add("t/.hidden.txt", "text");
  add("t/.git/config.txt", "text");
  ::mkfifo(path("t/pipe.txt").c_str(), 0600);
  fs::create_symlink(path("t/nothing"), path("t/broken.txt"));
  fs::create_symlink(path("t/good.txt"), path("t/other.txt"));
  const TextSource source = collect("t", {"txt"});
  EXPECT_THAT(names(source), ElementsAre("good.txt"));
  EXPECT_EQ(source.total_bytes, 4u);
  EXPECT_EQ(source.documents[0].size, 4u);
  EXPECT_EQ(source.skipped.empty, 2);
  EXPECT_EQ(source.skipped.binary, 1);
  EXPECT_EQ(source.skipped.other_extension, 1);
  EXPECT_EQ(source.skipped.hidden, 2);
  EXPECT_EQ(source.skipped.not_a_file, 2);
  EXPECT_EQ(source.skipped.repeated, 1);
}

TEST_F(TextSourceTest, TakesExtensionsWithAndWithoutDot) {
  add("t/a.txt", "text");
  add("t/b.md", "text");
  add("t/c.cpp", "text");
  EXPECT_THAT(names(collect("t", {".md", "txt"})), ElementsAre("a.txt", "b.md"));
}

TEST_F(TextSourceTest, TakesANamedFileWhateverItsExtension) {
  add("t/a.log", "text");
  EXPECT_THAT(names(collect("t/a.log", {"txt"})), ElementsAre("a.log"));
}

TEST_F(TextSourceTest, EndsOnLinksThatLeadBack) {
  add("t/a/x.txt", "text");
  fs::create_directory_symlink(path("t"), path("t/a/up"));
  fs::create_directory_symlink("self", path("t/self"));
  fs::create_directory_symlink(path("t/a"), path("t/again"));
  const TextSource source = collect("t");
  EXPECT_THAT(names(source), ElementsAre("a/x.txt"));
  EXPECT_EQ(source.skipped.not_a_file, 1);
}

TEST_F(TextSourceTest, FollowsLinksToFoldersElsewhere) {
  add("elsewhere/x.txt", "text");
  add("t/y.txt", "text");
  fs::create_directory_symlink(path("elsewhere"), path("t/link"));
  EXPECT_THAT(names(collect("t")), ElementsAre("link/x.txt", "y.txt"));
}

TEST_F(TextSourceTest, DoesNotReadAFileTwice) {
  add("t/a.txt", "text");
  const TextSource source = collect_text({.paths = {path("t"), path("t/a.txt")}, .extensions = {}});
  EXPECT_EQ(source.documents.size(), 1u);
  EXPECT_EQ(source.skipped.repeated, 1);
}

TEST_F(TextSourceTest, FingerprintIsOfPathsSizesAndContentsOnly) {
  add("t/a.txt", "one");
  add("t/sub/b.txt", "two");
  const std::string before = collect("t").fingerprint;
  EXPECT_EQ(before.size(), 32u);
  fs::copy(path("t"), path("moved"), fs::copy_options::recursive);
  add("moved/empty.txt", "");
  EXPECT_EQ(collect("moved").fingerprint, before);

  add("moved/a.txt", "onf");
  EXPECT_NE(collect("moved").fingerprint, before);
  add("moved/a.txt", "one");
  EXPECT_EQ(collect("moved").fingerprint, before);
  fs::rename(path("moved/a.txt"), path("moved/c.txt"));
  EXPECT_NE(collect("moved").fingerprint, before);
}

TEST_F(TextSourceTest, ReadsFilesOfSeveralPieces) {
  std::string large(3'000'000, 'x');
  add("t/large.txt", large);
  EXPECT_EQ(collect("t").documents[0].size, large.size());
  large.back() = '\0';
  add("t/large.txt", large);
  EXPECT_THAT(refusal("t/large.txt"), HasSubstr("byte 2999999"));
}

TEST_F(TextSourceTest, EachRefusalHasItsOwnSentence) {
  EXPECT_THAT(message_of([] { collect_text({}); }), HasSubstr("no text was given"));
  EXPECT_THAT(refusal("missing.txt"),
              AllOf(HasSubstr("does not exist"), HasSubstr("missing.txt"), HasSubstr("ls -ld")));
  add("empty.txt", "");
  EXPECT_THAT(refusal("empty.txt"), AllOf(HasSubstr("has no text"), HasSubstr("an empty file")));
  add("blank.txt", " \n ");
  EXPECT_THAT(refusal("blank.txt"), AllOf(HasSubstr("has no text"), HasSubstr("3 bytes, all of")));
  add("binary.txt", std::string("ab\0", 3));
  EXPECT_THAT(refusal("binary.txt"),
              AllOf(HasSubstr("is binary"), HasSubstr("byte 2"), HasSubstr("iconv -f UTF-16")));
  ::mkfifo(path("pipe").c_str(), 0600);
  EXPECT_THAT(refusal("pipe"), HasSubstr("neither a file nor a folder"));
}

TEST_F(TextSourceTest, FoldersWithoutTextSayWhatTheyHave) {
  fs::create_directory(path("t"));
  EXPECT_THAT(refusal("t"), AllOf(HasSubstr("no text to read"), HasSubstr("no files")));
  add("t/empty.txt", "");
  add("t/b.md", "text");
  EXPECT_THAT(refusal("t", {"txt"}),
              AllOf(HasSubstr("extension txt"), HasSubstr("1 empty, 1 with another extension"),
                    HasSubstr("list of extensions")));
}

// An existing file that cannot be read as one; permissions do not stop every user from reading.
TEST_F(TextSourceTest, AnUnreadableFileIsNamed) {
  const auto read = [&] { read_in_pieces(path(""), [](std::string_view) {}); };
  EXPECT_THAT(message_of(read), AllOf(HasSubstr("cannot read the file"), HasSubstr("kha_data_")));
}

}  // namespace
}  // namespace kha
