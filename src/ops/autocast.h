// Casts to autocast's dtype, for the operators that take part in it.
#pragma once

#include <ATen/autocast_mode.h>

namespace kha::ops {

// Keeps the calls inside from coming back to one device's autocast.
template <c10::DeviceType device>
class WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard_{
      at::autocast::get_autocast_dispatch_key_from_device_type(device)};
};

// Casts to the dtype of one device's autocast, and keeps the calls inside from coming back to it.
template <c10::DeviceType device>
class Caster {
 public:
  at::Tensor operator()(const at::Tensor& tensor) const {
    return at::autocast::cached_cast(dtype_, tensor, device);
  }
  std::optional<at::Tensor> operator()(const std::optional<at::Tensor>& tensor) const {
    return at::autocast::cached_cast(dtype_, tensor, device);
  }

 private:
  WithoutAutocast<device> no_autocast_;
  at::ScalarType dtype_ = at::autocast::get_autocast_dtype(device);
};

}  // namespace kha::ops
