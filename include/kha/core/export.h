// Export: a model as a folder that other programs open unchanged.
//
// Linear maps are folded on the way. The tensors are those of the public architecture: rotary rows
// in its order, the latents' epsilon in their projection. Everything that changes is computed in
// float64 and rounded once to the type that is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kha/core/dtype.h"
#include "kha/core/fold.h"
#include "kha/core/plain_architecture.h"

namespace kha {

struct ExportOptions {
  std::optional<DType> dtype = {};           // of every tensor; none: as stored
  std::uint64_t shard_size = 5'000'000'000;  // bytes of tensors a file; one larger tensor is alone
  bool keep_maps = false;                    // linear maps too (export_model)
};

struct ExportReport {
  PlainArchitecture architecture;
  ModelConfig model;                  // what was written, in our words
  std::vector<FoldedMap> folded;      // maps that were folded on the way
  std::vector<std::string> changes;   // sentences: what else differs from the tensors as stored
  std::vector<std::string> checks;    // sentences: what was checked on the finished folder
  std::vector<std::string> warnings;  // of check_tensors, and what vLLM would compute otherwise
  std::vector<std::string> left_out;  // files and folders that were not taken along
  std::string why_model_file = {};    // of the form with a model file: why it is not plain
  bool rounded = false;               // some tensor is not the bytes that were stored
  std::size_t files = 0;              // of tensors
  std::uint64_t bytes = 0;            // of tensors
};

// Reads the model folder `in`, writes `out`, which appears whole or not at all. In memory of one
// tensor.
//
// Errors: `in` is no model or a damaged checkpoint; tensors and config.json do not fit; no public
// architecture computes the model (the reason and the next step); a value is not finite in the type
// written; `out` exists; the disk; what was written does not read back.
ExportReport export_to_hugging_face(const std::filesystem::path& in,
                                    const std::filesystem::path& out,
                                    const ExportOptions& options = {});

// The plain form above where a public architecture computes the model, and no maps are to be kept;
// else every tensor as it is, `model_type: kha` and a model file, with which transformers opens it
// (trust_remote_code). Errors: as above but for the architecture.
ExportReport export_model(const std::filesystem::path& in, const std::filesystem::path& out,
                          const ExportOptions& options = {});

}  // namespace kha
