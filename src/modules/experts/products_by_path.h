// expert_products through products of the caller's choice.
#pragma once

#include "modules/experts/expert_products.h"
#include "modules/experts/product_path.h"

namespace kha {

// grouped sums a token's rows in the order of its choices, the others in that of the experts.
// Errors: torch's own, where grouped is asked for and it cannot.
at::Tensor expert_products(const at::Tensor& x, const at::Tensor& weights_Nk,
                           const Assignment& assignment, const ExpertMatrices& matrices,
                           ProductPath path);

}  // namespace kha
