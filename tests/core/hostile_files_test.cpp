// Files that are not what they seem, and disks that do not do what they should.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>

#include "core/store_testing.h"
#include "kha/core/checkpoint_store.h"
#include "kha/core/cut_file.h"
#include "kha/core/mapped_file.h"
#include "kha/core/model_config.h"
#include "kha/core/model_files.h"
#include "kha/core/tokenizer.h"

namespace kha {
namespace {

using namespace kha::testing;
namespace fs = std::filesystem;

void write_bytes(const fs::path& path, std::int64_t count) {
  SafetensorsWriter writer(path, {{"a", DType::u8, {count}}});
  writer.write("a", raw(std::string(static_cast<std::size_t>(count), 'x')));
  writer.finish();
}

// What a child that runs `action` prints on its standard error; its exit code stands in front.
std::string words_of_child(const std::function<int()>& action) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const int code = exit_code_of_child([&] {
    ::dup2(ends[1], STDERR_FILENO);
    return action();
  });
  ::close(ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], text.data(), 4096))));
  ::close(ends[0]);
  return std::to_string(code) + " " + text;
}

int sum_of_all(const SafetensorsFile& file) {
  int sum = 0;
  for (const std::byte byte : file.bytes("a")) sum += static_cast<int>(byte);
  return sum != 0 ? 0 : 9;
}

TEST(HostileFiles, AFileThatIsCutWhileItIsReadIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  write_bytes(path, 1 << 20);
  const auto read_and_cut = [&] {
    const auto file = SafetensorsFile::open(path);
    fs::resize_file(path, 8192);
    return sum_of_all(file);
  };
  EXPECT_EQ(words_of_child(read_and_cut), "-7 ");  // without: SIGBUS, and not a word
  write_bytes(path, 1 << 20);
  const std::string words = words_of_child([&] {
    report_cut_files();
    return read_and_cut();
  });
  expect_parts(words, {"2 error: a file became shorter while it was read", path.string(),
                       "restore the file and run it again"});
}

TEST(HostileFiles, ACutFileIsNamedHoweverManyAreOpen) {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  write_bytes(path, 1 << 20);
  const std::string words = words_of_child([&] {
    report_cut_files();
    std::vector<MappedFile> others;
    for (int i = 0; i < 1200; ++i) others.push_back(MappedFile::open(path));
    const auto cut = folder / "cut.safetensors";
    fs::copy_file(path, cut);
    const auto file = SafetensorsFile::open(cut);
    fs::resize_file(cut, 8192);
    return sum_of_all(file);
  });
  expect_parts(words, {"2 error: a file became shorter while it was read",
                       (folder / "cut.safetensors").string()});
}

TEST(HostileFiles, ASignalOfOtherOriginEndsTheProcessAsBefore) {
  EXPECT_EQ(words_of_child([] {
              report_cut_files();
              return ::raise(SIGBUS) + 20;
            }),
            "-7 ");
}

TEST(HostileFiles, EveryBeginningOfAModelIsRefusedInWords) {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  SafetensorsWriter writer(path, {{"a", DType::f32, {2, 3}}, {"b", DType::bf16, {5}}});
  writer.write("a", raw(std::string(24, '\1')));
  writer.write("b", raw(std::string(10, '\2')));
  writer.finish();
  const std::string whole = content(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put(path, std::string_view(whole).substr(0, size));
    const std::string message = message_of([&] { ModelFiles::open(path); });
    expect_parts(message, {"model.safetensors"});
    EXPECT_NE(message, "no error") << size;
  }
  put(path, whole);
  EXPECT_EQ(message_of([&] { ModelFiles::open(path); }), "no error");
}

TEST(HostileFiles, LinksInACircleAreNamed) {
  const TemporaryFolder folder;
  fs::create_symlink("model.safetensors", folder / "config.json");
  fs::create_symlink("config.json", folder / "model.safetensors");
  expect_parts(message_of([&] { SafetensorsFile::open(folder / "model.safetensors"); }),
               {"cannot read the file", "symbolic links", "model.safetensors"});
  expect_parts(message_of([&] { read_model_config(folder.path()); }),
               {"no config.json here", "no readable file", "config.json"});
  // As a folder: neither there nor another kind of file.
  EXPECT_NE(message_of([&] { ModelFiles::open(folder.path()); }), "no error");
}

TEST(HostileFiles, ALinkToAFileIsTheFile) {
  const TemporaryFolder folder;
  write_bytes(folder / "blob", 3);
  fs::create_symlink("blob", folder / "model.safetensors");
  EXPECT_EQ(ModelFiles::open(folder.path()).at("a").byte_size(), 3u);
  fs::remove(folder / "blob");
  expect_parts(message_of([&] { ModelFiles::open(folder / "model.safetensors"); }),
               {"there is no such file", "model.safetensors"});
}

// Two shards of an index under two names are one file: every tensor is there twice.
TEST(HostileFiles, ShardsThatAreOneFileAreNamed) {
  const TemporaryFolder folder;
  write_bytes(folder / "model-00001-of-00002.safetensors", 4);
  fs::create_hard_link(folder / "model-00001-of-00002.safetensors",
                       folder / "model-00002-of-00002.safetensors");
  put(folder / "model.safetensors.index.json",
      R"({"weight_map":{"a":"model-00001-of-00002.safetensors",)"
      R"("b":"model-00002-of-00002.safetensors"}})");
  expect_parts(message_of([&] { ModelFiles::open(folder.path()); }),
               {"do not agree", "a: in both model-00001-of-00002.safetensors and model-00002"});
}

// 300,000 levels: whoever copies or prints such a value calls itself as often.
TEST(HostileFiles, JsonOfNothingButBracketsIsRefused) {
  const TemporaryFolder folder;
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  const auto config = [&](const std::string& key) {
    return message_of([&] {
      parse_model_config("{\"model_type\":\"qwen3\",\"" + key + "\":" + deep + "}", "config.json");
    });
  };
  for (const char* key : {"hidden_size", "rope_scaling", "kha", "auto_map", "unknown"}) {
    expect_parts(config(key), {"nested too deeply", "config.json, byte", "100 levels"});
  }
  put(folder / "model.safetensors.index.json", "{\"weight_map\":{\"a\":" + deep + "}}");
  expect_parts(message_of([&] { ModelFiles::open(folder.path()); }),
               {"nested too deeply", "index.json, byte"});
  put(folder / "tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":" + deep + "}}");
  expect_parts(message_of([&] { open_tokenizer(folder.path()); }),
               {"nested too deeply", "tokenizer.json, byte"});
  // Brackets in a text are no levels.
  put(folder / "model.safetensors.index.json",
      R"({"weight_map":{"\")" + std::string(1000, '[') + R"(":"x.safetensors"}})");
  expect_parts(message_of([&] { ModelFiles::open(folder.path()); }), {"x.safetensors"});
}

TEST(HostileFiles, ANumberBeyondAllNumbersIsASentence) {
  const TemporaryFolder folder;
  put(folder / "model.safetensors.index.json", R"({"weight_map":{"a":1e999}})");
  expect_parts(message_of([&] { ModelFiles::open(folder.path()); }),
               {"the shard index holds a number that is too large", "index.json", "1e999"});
  expect_parts(message_of([] { parse_model_config(R"({"rope_theta":1e999})", "config.json"); }),
               {"config.json"});
}

// Runs in a child with a disk of 1 MB of its own; 77 where this user may not mount one.
int on_small_disk(const fs::path& mount, const std::function<int()>& action) {
  if (::unshare(CLONE_NEWNS) != 0) return 77;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  if (::mount("tmpfs", mount.c_str(), "tmpfs", 0, "size=1m") != 0) return 77;
  return action();
}

TEST(HostileFiles, AFullDiskIsASentenceAndLeavesTheOldFile) {
  const TemporaryFolder folder;
  const auto code = exit_code_of_child([&] {
    return on_small_disk(folder.path(), [&] {
      const auto path = folder / "model.safetensors";
      write_bytes(path, 1000);
      const std::string before = content(path);
      const std::string message = message_of([&] { write_bytes(path, 3 << 20); });
      for (const char* part :
           {"the disk is full", "model.safetensors", "room for 3145", "bytes free",
            "nothing was changed under this name", "free some space"}) {
        if (message.find(part) == std::string::npos) return 2;
      }
      if (content(path) != before) return 3;
      if (names_in(folder.path()).size() != 1) return 4;  // no partial file stays
      CheckpointStore store(folder / "checkpoints");
      auto pending = store.begin(5);
      const auto big = [&] { write_bytes(pending.folder() / "model.safetensors", 3 << 20); };
      return message_of(big).find("the disk is full") == std::string::npos ? 5 : 0;
    });
  });
  if (code == 77) GTEST_SKIP() << "only root may mount a small disk";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace kha
