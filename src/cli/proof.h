// The proof behind a change of a model: kha-engine compares the logits of both.
#pragma once

#include <string>
#include <vector>

namespace kha::cli {

enum class Verdict { equal, different, failed, no_engine, not_asked };

struct Proof {
  Verdict verdict;
  int exit_code;  // the engine's own; 0 where none ran

  bool good() const { return verdict != Verdict::different && verdict != Verdict::failed; }
};

struct ProofRequest {
  std::string before, after;      // model folders
  std::vector<std::string> text;  // none: what `kha diff` takes by itself
  std::string limit;              // largest difference that passes; empty: of `kha diff`
  bool asked = true;              // false: --no-verify
  bool output_aside = false;      // the engine's words to standard error, for --json
};

// Runs `kha-engine diff` where it is installed.
Proof prove_equal(const ProofRequest& request);

// "equal", "different", "failed", "no_engine" or "not_asked", for JSON.
std::string to_string(Verdict verdict);

// Says what was proved; `changed` is "folded" or the like.
void print_verdict(const ProofRequest& request, Verdict verdict, const std::string& changed);

}  // namespace kha::cli
