#include "kha/core/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/store_testing.h"
#include "kha/core/mapped_file.h"

namespace kha {
namespace {

using namespace kha::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Files of this process may not grow beyond `bytes`; a write then fails instead of killing it.
void limit_file_size(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit { .rlim_cur = bytes, .rlim_max = bytes };
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

void become_nobody_if_root() {
  if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(99);
}

TEST(AtomicFile, ReplacesTheFileAndLeavesNothingElse) {
  const TemporaryFolder folder;
  put(folder / "a.txt", "old");
  const FileReport report = write_file_atomically(folder / "a.txt", "new text");
  EXPECT_EQ(content(folder / "a.txt"), "new text");
  EXPECT_EQ(report.size, 8u);
  EXPECT_EQ(report.checksum, xxh3_64(raw("new text")));
  EXPECT_EQ(report, report_file(folder / "a.txt"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.txt"));
}

TEST(AtomicFile, SinkOverManyBuffersEqualsItsParts) {
  const TemporaryFolder folder;
  std::string all;
  FileSink sink(folder / "a.bin");
  for (int i = 0; i < 300; ++i) {
    const std::string part(static_cast<std::size_t>(i * 97), static_cast<char>('a' + i % 26));
    sink.write(part);
    all += part;
  }
  const std::string large(3 << 20, 'z');
  sink.write(large);
  all += large;
  EXPECT_FALSE(std::filesystem::exists(folder / "a.bin"));
  const FileReport report = sink.finish();
  EXPECT_EQ(content(folder / "a.bin"), all);
  EXPECT_EQ(report.checksum, xxh3_64(raw(all)));
}

TEST(AtomicFile, WithoutFinishTheOldFileStays) {
  const TemporaryFolder folder;
  put(folder / "a.txt", "old");
  {
    FileSink sink(folder / "a.txt");
    sink.write(std::string(5 << 20, 'x'));
    EXPECT_EQ(names_in(folder.path()).size(), 2u);
  }
  EXPECT_EQ(content(folder / "a.txt"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.txt"));
}

TEST(AtomicFile, FollowsALinkAndKeepsIt) {
  const TemporaryFolder folder;
  put(folder / "real.txt", "old");
  std::filesystem::create_symlink("real.txt", folder / "link.txt");
  write_file_atomically(folder / "link.txt", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.txt"));
  EXPECT_EQ(content(folder / "real.txt"), "new");
}

TEST(AtomicFile, FileSizeLimitIsASentenceAndChangesNothing) {
  const TemporaryFolder folder;
  put(folder / "a.txt", "old");
  const int code = exit_code_of_child([&] {
    limit_file_size(4096);
    const std::string message =
        message_of([&] { write_file_atomically(folder / "a.txt", std::string(100'000, 'x')); });
    expect_parts(message,
                 {"may not grow this large", "a.txt", "100000 bytes", "limit of 4096 bytes",
                  "stopped after 4096 bytes", "nothing was changed", "ulimit -f"});
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(content(folder / "a.txt"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.txt"));
}

// Without the right to make files in /dev: were the sink at fault and replaced its target, the
// machine's own devices must not be what it replaces.
TEST(AtomicFile, FullDeviceIsASentence) {
  const int code = exit_code_of_child([] {
    become_nobody_if_root();
    const std::string message = message_of([&] {
      FileSink sink("/dev/full", 2'000'000);
      sink.write(std::string(2'000'000, 'x'));
      sink.finish();
    });
    expect_parts(message, {"the disk is full", "/dev/full", "2000000 bytes", "bytes free",
                           "free some space"});
    const std::string late = message_of([&] { write_file_atomically("/dev/full", "x"); });
    EXPECT_THAT(late, HasSubstr("the disk is full"));
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
}

TEST(AtomicFile, PipeIsWrittenAndNotReplaced) {
  const TemporaryFolder folder;
  ::mkfifo((folder / "pipe").c_str(), 0600);
  const int reader = ::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(write_file_atomically(folder / "pipe", "text").size, 4u);
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof(got)), 4);
  ::close(reader);
  EXPECT_STREQ(got, "text");
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST(AtomicFile, MissingFolderAndFolderAsFile) {
  const TemporaryFolder folder;
  expect_parts(message_of([&] { write_file_atomically(folder / "no/a.txt", "x"); }),
               {"its folder does not exist", "no/a.txt", "mkdir -p"});
  expect_parts(message_of([&] { write_file_atomically(folder.path(), "x"); }),
               {"a folder has this name", "file name inside"});
}

// As a user who may only look into the folder, whoever runs the tests.
TEST(AtomicFile, NoPermission) {
  const TemporaryFolder folder;
  put(folder / "a.txt", "old");
  ::chmod(folder.path().c_str(), 0555);
  const int code = exit_code_of_child([&] {
    become_nobody_if_root();
    expect_parts(message_of([&] { write_file_atomically(folder / "a.txt", "x"); }),
                 {"no permission to write", "a.txt", "nothing was changed"});
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  ::chmod(folder.path().c_str(), 0700);
  EXPECT_EQ(content(folder / "a.txt"), "old");
}

TEST(MappedFile, ReadsAndMoves) {
  const TemporaryFolder folder;
  MappedFile first = MappedFile::open(put(folder / "a.txt", "hello"));
  MappedFile second = std::move(first);
  EXPECT_EQ(second.bytes().size(), 5u);
  EXPECT_EQ(second.bytes()[4], std::byte{'o'});
  second = MappedFile::open(put(folder / "empty", ""));
  EXPECT_TRUE(second.bytes().empty());
}

TEST(MappedFile, ErrorsAreSentences) {
  const TemporaryFolder folder;
  put(folder / "model.safetensors", "x");
  expect_parts(message_of([&] { MappedFile::open(folder / "model.safetensor"); }),
               {"no such file", "did you mean `model.safetensors`", folder.path().string()});
  expect_parts(message_of([&] { MappedFile::open(folder / "no/a"); }),
               {"no such file", "the folder", "does not exist either"});
  expect_parts(message_of([&] { MappedFile::open(folder.path()); }), {"this is a folder"});
  expect_parts(message_of([&] { MappedFile::open("/dev/null"); }), {"a device, pipe or socket"});
  ::mkfifo((folder / "pipe").c_str(), 0600);
  expect_parts(message_of([&] { MappedFile::open(folder / "pipe"); }),
               {"a device, pipe or socket"});
}

TEST(MappedFile, NoPermission) {
  const TemporaryFolder folder;
  ::chmod(folder.path().c_str(), 0755);
  ::chmod(put(folder / "a", "x").c_str(), 0);
  const int code = exit_code_of_child([&] {
    become_nobody_if_root();
    expect_parts(message_of([&] { MappedFile::open(folder / "a"); }),
                 {"no permission to read", "chmod"});
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
}

// Values of the published test vectors of XXH3: the empty input with seed 0.
TEST(Checksum, KnownValues) {
  EXPECT_EQ(to_hex(xxh3_64({})), "2d06800538d394c2");
  EXPECT_EQ(to_hex(xxh3_128({})), "99aa06d3014798d86001c324468d497f");
}

TEST(Checksum, StreamsEqualTheWholeWhereverTheyAreCut) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 31);
  for (const std::size_t step : {1u, 7u, 256u, 4999u}) {
    ChecksumStream narrow;
    ChecksumStream128 wide;
    for (std::size_t at = 0; at < text.size(); at += step) {
      narrow.update(raw(std::string_view(text).substr(at, step)));
      wide.update(raw(std::string_view(text).substr(at, step)));
    }
    EXPECT_EQ(narrow.digest(), xxh3_64(raw(text)));
    EXPECT_EQ(wide.digest(), xxh3_128(raw(text)));
  }
}

}  // namespace
}  // namespace kha
