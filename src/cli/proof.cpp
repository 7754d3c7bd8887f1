#include "cli/proof.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <optional>

#include "cli/beside.h"

namespace kha::cli {
namespace {

// While it lives, what this process and its children print goes to standard error: with --json,
// standard output holds the JSON and nothing else.
class OutputAside {
 public:
  OutputAside() {
    std::fflush(stdout);
    saved_ = ::dup(STDOUT_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  OutputAside(const OutputAside&) = delete;
  ~OutputAside() {
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

std::vector<std::string> diff_arguments(const ProofRequest& request) {
  std::vector<std::string> words{"diff", request.before, request.after};
  if (!request.limit.empty()) words.insert(words.end(), {"--limit", request.limit});
  for (const auto& text : request.text) words.insert(words.end(), {"--text", text});
  return words;
}

std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return std::toupper(letter); });
  return text;
}

}  // namespace

Proof prove_equal(const ProofRequest& request) {
  if (!request.asked) return {Verdict::not_asked, 0};
  const auto engine = program_beside("kha-engine");
  if (!engine) return {Verdict::no_engine, 0};
  std::optional<OutputAside> aside;
  if (request.output_aside) aside.emplace();
  std::fflush(stdout);
  const int code = run_child(*engine, diff_arguments(request));
  return {code == 0 ? Verdict::equal : code == 1 ? Verdict::different : Verdict::failed, code};
}

std::string to_string(Verdict verdict) {
  static const char* const verdicts[] = {"equal", "different", "failed", "no_engine", "not_asked"};
  return verdicts[static_cast<size_t>(verdict)];
}

void print_verdict(const ProofRequest& request, Verdict verdict, const std::string& changed) {
  switch (verdict) {
    case Verdict::equal:
      fmt::print("verified: both models give the same logits\n");
      break;
    case Verdict::not_asked:
      fmt::print("not verified: --no-verify\n");
      break;
    case Verdict::no_engine:
      fmt::print("not verified: kha-engine is not installed beside kha\n");
      break;
    case Verdict::different:
    case Verdict::failed:
      std::fflush(stdout);
      fmt::print(stderr,
                 "\nTHE {} MODEL IS NOT VERIFIED: {}.\n"
                 "  {} was left in place for inspection: do not use it.\n"
                 "  next:     kha diff {} {}\n",
                 capitals(changed),
                 verdict == Verdict::different ? "its logits differ from those of " + request.before
                                               : "the comparison itself failed",
                 request.after, request.before, request.after);
  }
}

}  // namespace kha::cli
