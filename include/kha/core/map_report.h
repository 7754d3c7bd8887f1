// What the learned maps look like in figures: how far each matrix is from where it started, how
// well conditioned it is, how its diagonal and the rest share its energy.
//
// Training logs the same figures, so the arithmetic stands on plain arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kha/core/knock_setting.h"

namespace kha {

struct ModelConfig;
class ModelFiles;

// Figures of one D x D matrix M. All are NaN when an element is not finite.
struct MatrixFigures {
  // ||M - I||_F / sqrt(D); of a gate, which starts at zero: ||M||_F / sqrt(D)
  double identity_distance = 0;
  double condition = 0;  // largest over smallest singular value; infinity when singular
  double diagonal_mean = 0;
  double diagonal_min = 0;
  double diagonal_max = 0;
  // sum of squares off the diagonal / sum of all; 0 of the zero matrix
  double off_diagonal_share = 0;
};

// `matrix`: [D, D] row-major, any number of elements that is a square (an assert).
MatrixFigures matrix_figures(std::span<const double> matrix, bool starts_at_identity);

// As MatrixFigures::condition. Singular means singular to rounding: smallest <= D eps largest.
double condition_number(std::span<const double> matrix);

struct MapFigures {
  int64_t layer;
  KnockSlot slot;
  KnockKind kind;
  std::string matrix;  // "T" of linear; "up", "gate", "down"
  std::string tensor;  // its name in the checkpoint
  MatrixFigures figures;
};

// Every matrix of every map, by layer. Errors: a map's tensor is absent or of another shape
// (check_tensors.h finds these beforehand, with a better message), a type that is not a number's.
std::vector<MapFigures> map_report(const ModelFiles& files, const ModelConfig& config);

// A table for a terminal, one line a matrix; empty when there are none.
std::string to_table(const std::vector<MapFigures>& report);

// A JSON array of objects. What JSON cannot say (infinity, NaN) is null; `singular` says which.
std::string to_json(const std::vector<MapFigures>& report);

}  // namespace kha
