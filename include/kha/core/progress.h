// What a person sees while a program works: one live line on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <string>

namespace kha {

struct StepFigures {
  int64_t step = 0, steps = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  double tokens_per_second = 0, gflops = 0;
  double mfu = 0;  // share of the ceiling; 0: not known
  double seconds_left = 0;
  int64_t resident_bytes = 0;
};

class Progress {
 public:
  explicit Progress(std::string label);

  // Redraws the live line; elsewhere prints a line when `logged`.
  void step(const StepFigures& figures, bool logged);
  // A passing note of a long part ("reading text 41 %"); shown on a terminal only.
  void passing(const std::string& text);
  bool live() const { return terminal_; }  // whether passing() shows anything
  // A line that stays.
  void line(const std::string& text);
  // Removes the live line.
  void clear();
  // Leaves the last live line standing.
  void finish();

 private:
  void draw(const std::string& text);

  std::string label_;
  bool terminal_;
  bool drawn_ = false;
};

std::string duration_text(double seconds);  // "1 h 04 min", "3 min 20 s", "12 s"
std::string bytes_text(double bytes);       // "1.25 GB"

}  // namespace kha
