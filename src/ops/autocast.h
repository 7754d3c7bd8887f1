// Casts to autocast's dtype, for the operators that take part in it.
#pragma once

#include <ATen/autocast_mode.h>

namespace kha::ops {

// Keeps the calls inside from coming back to autocast, and casts for one device.
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
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{
      at::autocast::get_autocast_dispatch_key_from_device_type(device)};
  at::ScalarType dtype_ = at::autocast::get_autocast_dtype(device);
};

}  // namespace kha::ops
