#include "kha/core/error.h"

#include <utility>

namespace kha {
namespace {

void add_part(std::string& text, const char* label, const std::string& part) {
  if (!part.empty()) text += std::string("\n  ") + label + part;
}

}  // namespace

std::string to_text(const Diagnosis& diagnosis) {
  std::string text = diagnosis.what;
  add_part(text, "where:    ", diagnosis.where);
  add_part(text, "expected: ", diagnosis.expected);
  add_part(text, "found:    ", diagnosis.found);
  add_part(text, "cause:    ", diagnosis.cause);
  add_part(text, "next:     ", diagnosis.next);
  return text;
}

Error::Error(Diagnosis diagnosis, ExitCode code)
    : std::runtime_error(to_text(diagnosis)), diagnosis_(std::move(diagnosis)), code_(code) {}

void fail(Diagnosis diagnosis, ExitCode code) { throw Error(std::move(diagnosis), code); }

}  // namespace kha
