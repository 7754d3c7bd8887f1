// What generation came to, for one text or a batch: as text, in words and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/generate/generate.h"
#include "train/what_ran.h"

namespace kha::cli {

// How texts were made, and in what time.
struct Generation {
  SamplingOptions sampling;  // with the seed that was taken
  std::string kv_cache;      // as --kv-cache names it
  WhatRan ran;
  double seconds = 0;

  double tokens_per_second(size_t tokens) const {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  }
};

// To standard output, at once. Fails where it cannot be written.
void print_piece(const std::string& piece);

// Of one text, whose pieces are printed already (but for JSON).
void print_summary(const GenerateResult& result, int64_t prompt_tokens, const Generation& how);
void print_json(const GenerateResult& result, int64_t prompt_tokens, const Generation& how);

// Of a batch: each prompt with its text, and a line about all.
void print_batch(const std::vector<std::string>& prompts,
                 const std::vector<GenerateResult>& results, const Generation& how);
void print_batch_json(const std::vector<std::string>& prompts,
                      const std::vector<GenerateResult>& results, const Generation& how);

}  // namespace kha::cli
