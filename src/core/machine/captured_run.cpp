#include "kha/core/captured_run.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "kha/core/error.h"

namespace kha {
namespace {

constexpr int signal_base = 128;  // as shells report a program that a signal ended

// Files instead of pipes: a child that writes much to both never waits for a reader.
using Capture = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Capture new_capture() {
  Capture file(std::tmpfile(), std::fclose);
  if (file) return file;
  fail({.what = "cannot make a temporary file",
        .found = std::strerror(errno),
        .next = "free some space in the folder for temporary files"});
}

std::string content(const Capture& capture) {
  std::string text;
  std::rewind(capture.get());
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, capture.get()))
    text.append(buffer, count);
  return text;
}

pid_t start(std::vector<std::string> words, const Capture& output, const Capture& errors) {
  std::vector<char*> list;
  for (auto& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(output.get()), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(errors.get()), STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, list[0], &actions, nullptr, list.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return child;
  fail({.what = "cannot start this program", .where = words[0], .found = std::strerror(error)});
}

}  // namespace

CapturedRun run_captured(const std::filesystem::path& program,
                         const std::vector<std::string>& arguments) {
  const Capture output = new_capture(), errors = new_capture();
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const pid_t child = start(std::move(words), output, errors);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : signal_base + WTERMSIG(status);
  return {code, content(output), content(errors)};
}

}  // namespace kha
