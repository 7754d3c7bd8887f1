#include "kha/core/cut_file.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "core/store/mapping_table.h"
#include "kha/core/error.h"

namespace kha {
namespace {

void say(const char* text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
}

// Calls only what a signal handler may call.
void on_missing_page(int, siginfo_t* info, void*) {
  const char* file = file_mapped_at(info->si_addr);
  if (file == nullptr) {
    ::signal(SIGBUS, SIG_DFL);
    ::raise(SIGBUS);  // held back until this returns, then the end of the process
    return;
  }
  say("error: a file became shorter while it was read\n  where:    ");
  say(file);
  say("\n  cause:    another program cut or replaced its content, or its disk cannot be read\n"
      "  next:     restore the file and run it again; what was being written is under a hidden "
      "name\n");
  ::_exit(static_cast<int>(ExitCode::bad_input));
}

}  // namespace

void report_cut_files() {
  struct sigaction action {};
  action.sa_sigaction = on_missing_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace kha
