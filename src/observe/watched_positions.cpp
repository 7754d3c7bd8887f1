#include "observe/watched_positions.h"

#include <ATen/Functions.h>

#include <cstring>
#include <vector>

namespace kha {

at::Tensor text_positions_of(const Batch& batch) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < batch.documents.size(); ++i) {
    if (batch.documents[i] >= 0) positions.push_back(static_cast<int64_t>(i));
  }
  at::Tensor index = at::empty({static_cast<int64_t>(positions.size())}, at::kLong);
  std::memcpy(index.mutable_data_ptr(), positions.data(), index.nbytes());
  return index;
}

at::Tensor ids_of(const Batch& batch) {
  at::Tensor ids = at::empty({batch.rows, batch.context}, at::kLong);
  std::memcpy(ids.mutable_data_ptr(), batch.inputs.data(), ids.nbytes());
  return ids;
}

}  // namespace kha
