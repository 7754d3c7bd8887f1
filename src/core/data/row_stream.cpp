#include "core/data/row_stream.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/store/file_descriptor.h"
#include "core/store/file_errors.h"
#include "kha/core/error.h"

namespace kha {
namespace {

using TemporaryFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::vector<std::string> command_of(const std::filesystem::path& file,
                                    const CorpusOptions& options) {
  std::vector<std::string> words{options.parquet_reader.string(), file.string()};
  const DocumentKeys& keys = options.keys;
  const auto columns = keys.with_prompt() ? std::vector<std::string>{keys.prompt, keys.answer}
                                          : std::vector<std::string>{keys.text};
  for (const std::string& column : columns) {
    words.push_back("--column");
    words.push_back(column);
  }
  return words;
}

class RowStream : public ByteStream {
 public:
  RowStream(const std::filesystem::path& file, std::vector<std::string> command)
      : path_(file), command_(std::move(command)), errors_(std::tmpfile(), &std::fclose) {
    if (!errors_) fail_reading(file, errno);
    start();
  }

  // A reader that stops early ends the child, too.
  ~RowStream() override {
    if (child_ <= 0) return;
    ::kill(child_, SIGTERM);
    wait();
  }

  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      const ssize_t count = ::read(rows_.get(), out.data() + done, out.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_reading(path_, errno);
      if (count == 0) end();
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

  // How far the child is in the file is not known before it has ended.
  std::uint64_t file_bytes() const override {
    std::error_code error;
    return ended_ ? std::filesystem::file_size(path_, error) : 0;
  }

  Checksum128 file_checksum() const override {
    ChecksumStream128 checksum;
    read_in_pieces(
        path_, [&](std::string_view piece) { checksum.update(std::as_bytes(std::span(piece))); });
    return checksum.digest();
  }

 private:
  void start() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_reading(path_, errno);
    rows_ = FileDescriptor(ends[0]);
    const FileDescriptor writing(ends[1]);
    std::vector<char*> list;
    for (std::string& word : command_) list.push_back(word.data());
    list.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ::fileno(errors_.get()), STDERR_FILENO);
    const int error = ::posix_spawn(&child_, list[0], &actions, nullptr, list.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0) return;
    child_ = 0;
    fail({.what = "cannot start the program that reads Parquet files",
          .where = command_[0],
          .found = std::strerror(error),
          .next = "build and install again: make build"});
  }

  int wait() {
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = 0;
    return status;
  }

  void end() {
    ended_ = true;
    const int status = wait();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (WIFSIGNALED(status)) fail_signal(WTERMSIG(status));
    std::string words = last_words();
    fail({.what = "the Parquet file cannot be read",
          .where = path_.string(),
          .found = words.empty() ? "kha-parquet stopped without a word" : words});
  }

  [[noreturn]] void fail_signal(int signal) const {
    fail({.what = "the Parquet file cannot be read",
          .where = path_.string(),
          .found =
              std::string("the reader of Parquet was ended by a signal: ") + ::strsignal(signal),
          .cause = signal == SIGKILL || signal == SIGTERM
                       ? "not enough memory for its rows, or somebody ended it"
                       : "a damaged file",
          .next = "copy, download or write the file again, in smaller rows; or give it as .jsonl"});
  }

  // What the child printed, without the word that the program itself says first.
  std::string last_words() const {
    std::rewind(errors_.get());
    char buffer[4096];
    std::string words(buffer, std::fread(buffer, 1, sizeof buffer, errors_.get()));
    while (words.ends_with('\n')) words.pop_back();
    constexpr std::string_view start = "error: ";
    return words.starts_with(start) ? words.substr(start.size()) : words;
  }

  std::filesystem::path path_;
  std::vector<std::string> command_;
  TemporaryFile errors_;
  FileDescriptor rows_;
  pid_t child_ = 0;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_rows(const std::filesystem::path& file,
                                      const CorpusOptions& options) {
  if (options.parquet_reader.empty()) {
    fail({.what = "Parquet files are read by the companion kha-parquet, which is not here",
          .where = file.string(),
          .expected = "kha-parquet beside the program kha",
          .next = "make build; or write the rows as .jsonl and give that file"});
  }
  return std::make_unique<RowStream>(file, command_of(file, options));
}

}  // namespace kha
