// Errors for users: what failed, where, what was expected and found, why, what to do next.
//
// Everything below `ops` throws kha::Error for bad input; programs print it whole and leave with
// its exit code. Bugs are asserts, never Errors.
#pragma once

#include <stdexcept>
#include <string>

namespace kha {

// Exit codes of every program (docs/design.md): 1 a check failed, 2 bad usage or input.
enum class ExitCode : int { good = 0, check_failed = 1, bad_input = 2 };

// The parts of a message. `what` is one sentence without a full stop; empty parts are left out.
struct Diagnosis {
  std::string what;
  std::string where = {};  // file, tensor, offset, key
  std::string expected = {};
  std::string found = {};
  std::string cause = {};  // likely cause
  std::string next = {};   // the next command or edit
};

class Error : public std::runtime_error {
 public:
  explicit Error(Diagnosis diagnosis, ExitCode code = ExitCode::bad_input);
  const Diagnosis& diagnosis() const { return diagnosis_; }
  ExitCode code() const { return code_; }

 private:
  Diagnosis diagnosis_;
  ExitCode code_;
};

// Throws Error. Used with designated initialisers:
//   fail({.what = "the file is empty", .where = path, .next = "give a file with text"});
[[noreturn]] void fail(Diagnosis diagnosis, ExitCode code = ExitCode::bad_input);

// The message as printed: `what` on the first line, one indented, labelled line per other part.
std::string to_text(const Diagnosis& diagnosis);

}  // namespace kha
