#include "ops/head_loss_chunks.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "kha/ops/head_loss.h"
#include "ops/cpu_rows.h"
#include "ops/validate_layers.h"

namespace kha::ops {
namespace {

using at::Tensor;

// One pass by kha's kernel over adjacent rows of float32 logits, in place.
void convert_rows(const CpuKernels& kernels, const Tensor& logits, const Tensor& targets,
                  const Tensor& scales, const Tensor& losses) {
  float* logits_at = logits.mutable_data_ptr<float>();
  const auto* target = targets.const_data_ptr<std::int64_t>();
  const float* scale = scales.defined() ? scales.const_data_ptr<float>() : nullptr;
  float* loss = losses.mutable_data_ptr<float>();
  const std::int64_t width = logits.size(1);
  // Every row is a result of its own.
  at::parallel_for(
      0, logits.size(0), thread_grain(width), [&](std::int64_t begin, std::int64_t end) {
        kernels.head_loss(logits_at + begin * width, end - begin, width, target + begin,
                          scale ? scale + begin : nullptr, loss + begin);
      });
}

// The same from torch's operators: losses are written, the gradient of the logits comes back.
Tensor compose_rows(const Tensor& logits, const Tensor& targets, const Tensor& scales,
                    const Tensor& losses) {
  const Tensor counted = targets.ne(not_counted);
  const Tensor column = targets.clamp_min(0).unsqueeze(1);
  Tensor log_p = at::log_softmax(logits, 1);
  losses.copy_(at::where(counted, log_p.gather(1, column).squeeze(1).neg(), 0));
  if (!scales.defined()) return {};
  Tensor gradient = log_p.exp_();
  gradient.scatter_add_(1, column, gradient.new_full({1, 1}, -1).expand_as(column));
  gradient.mul_(scales.unsqueeze(1));
  return gradient.masked_fill_(counted.logical_not().unsqueeze(1), 0);
}

// gradient = scale (p - 1_target) becomes scale ((1 + c) p - 1_target), c = 2 z_loss log_sum: that
// is (1 + c) gradient + c scale 1_target.
void add_z_loss(double z_loss, const Tensor& log_sums, const Tensor& targets, const Tensor& scales,
                const Tensor& gradient) {
  const Tensor counted = targets.ne(not_counted);
  const Tensor factor = (log_sums * (2 * z_loss)).masked_fill_(counted.logical_not(), 0);
  gradient.mul_((factor + 1).unsqueeze(1));
  gradient.scatter_add_(1, targets.clamp_min(0).unsqueeze(1), (factor * scales).unsqueeze(1));
}

class Chunks {
 public:
  Chunks(const Tensor& hidden, const Tensor& weight, const Tensor& targets, double z_loss = 0)
      : hidden_(hidden),
        weight_(weight),
        targets_(targets.contiguous()),
        z_loss_(z_loss),
        wide_(loss_dtype(hidden)),
        chunk_(head_loss_chunk_rows(hidden.size(0), weight.size(0), hidden.size(1))),
        kernels_(kernels_for(hidden)) {
    const std::int64_t rows = std::min(chunk_, hidden.size(0));
    if (!is_narrow()) logits_ = at::empty({rows, weight.size(0)}, hidden.options());
    result_.losses = at::empty({hidden.size(0)}, hidden.options().dtype(wide_));
  }

  HeadLoss losses() {
    for_each_chunk([this](std::int64_t begin, std::int64_t rows) { convert(begin, rows, {}); });
    return result_;
  }

  HeadLoss with_gradients(const Tensor& scales, bool with_weight) {
    const Tensor adjacent = scales.contiguous();
    result_.dhidden = at::empty(hidden_.sizes(), hidden_.options());
    for_each_chunk([&](std::int64_t begin, std::int64_t rows) {
      const Tensor scale = adjacent.narrow(0, begin, rows);
      const Tensor gradient = convert(begin, rows, scale).to(hidden_.scalar_type());
      Tensor dhidden = result_.dhidden.narrow(0, begin, rows);
      at::mm_out(dhidden, gradient, weight_);
      if (with_weight) add_weight_gradient(gradient.t(), hidden_.narrow(0, begin, rows));
    });
    finish_weight_gradient(with_weight);
    return result_;
  }

 private:
  // bfloat16 or float16: the product has another dtype than the softmax.
  bool is_narrow() const { return hidden_.scalar_type() != wide_; }

  template <class Work>
  void for_each_chunk(const Work& work) const {
    for (std::int64_t begin = 0; begin < hidden_.size(0); begin += chunk_) {
      work(begin, std::min(chunk_, hidden_.size(0) - begin));
    }
  }

  Tensor logits_of(const Tensor& hidden) const {
    if (is_narrow()) return hidden.mm(weight_.t()).to(wide_);
    Tensor logits = logits_.narrow(0, 0, hidden.size(0));
    at::mm_out(logits, hidden, weight_.t());
    return logits;
  }

  // Writes the chunk's losses; gives the gradient of its logits where there are scales.
  Tensor convert(std::int64_t begin, std::int64_t rows, const Tensor& scale) const {
    const Tensor logits = logits_of(hidden_.narrow(0, begin, rows));
    const Tensor targets = targets_.narrow(0, begin, rows);
    const Tensor losses = result_.losses.narrow(0, begin, rows);
    if (z_loss_ == 0 || !scale.defined()) return convert(logits, targets, scale, losses);
    const Tensor wanted = logits.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1);
    const Tensor gradient = convert(logits, targets, scale, losses);
    add_z_loss(z_loss_, losses + wanted, targets, scale, gradient);
    return gradient;
  }

  Tensor convert(const Tensor& logits, const Tensor& targets, const Tensor& scale,
                 const Tensor& losses) const {
    if (!kernels_) return compose_rows(logits, targets, scale, losses);
    convert_rows(*kernels_, logits, targets, scale, losses);
    return logits;
  }

  // Summed over chunks in the wide dtype, else every chunk would round the sum again.
  void add_weight_gradient(const Tensor& gradient_VR, const Tensor& hidden_Rd) {
    Tensor& sum = result_.dweight;
    if (!sum.defined()) {
      sum = gradient_VR.mm(hidden_Rd).to(wide_);
    } else if (is_narrow()) {
      sum.add_(gradient_VR.mm(hidden_Rd));
    } else {
      sum.addmm_(gradient_VR, hidden_Rd);
    }
  }

  void finish_weight_gradient(bool with_weight) {
    Tensor& sum = result_.dweight;
    if (!with_weight) sum = at::empty({0}, weight_.options());
    if (!sum.defined()) sum = at::zeros(weight_.sizes(), weight_.options());  // no rows
    sum = sum.to(weight_.scalar_type());
  }

  Tensor hidden_, weight_, targets_;
  double z_loss_;
  at::ScalarType wide_;
  std::int64_t chunk_;
  const CpuKernels* kernels_;  // null: torch's operators
  Tensor logits_;              // [chunk, V], used again by every chunk
  HeadLoss result_;
};

}  // namespace

HeadLoss head_loss_by_chunks(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  return Chunks(hidden, weight, targets).losses();
}

HeadLoss head_loss_by_chunks(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                             const Tensor& scales, bool with_weight, double z_loss) {
  return Chunks(hidden, weight, targets, z_loss).with_gradients(scales, with_weight);
}

}  // namespace kha::ops
