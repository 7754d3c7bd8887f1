#include "cli/beside.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kha/core/error.h"

namespace kha::cli {
namespace {

std::vector<char*> argument_list(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (auto& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> words_of(const std::filesystem::path& program,
                                  const std::vector<std::string>& arguments) {
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

[[noreturn]] void fail_to_start(const std::filesystem::path& program, int error) {
  fail({.what = "cannot start " + program.filename().string(),
        .where = program.string(),
        .found = std::strerror(error),
        .next = "build and install again: make build"});
}

}  // namespace

void become(const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  auto words = words_of(program, arguments);
  execv(program.c_str(), argument_list(words).data());
  fail_to_start(program, errno);
}

int run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  auto words = words_of(program, arguments);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, program.c_str(), nullptr, nullptr, argument_list(words).data(), environ);
  if (error != 0) fail_to_start(program, error);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace kha::cli
