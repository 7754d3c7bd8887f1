"""torchtitan 0.2.2 on CPUs, which it does not offer itself: for a trial of the model family.

    torchrun --nproc-per-node 2 examples/torchtitan/on_cpu.py --job.config_file …

It asks the device's module for a handful of functions that torch.cpu does not have; here they say
that there is one device and nothing to measure. Nothing of the training is touched.
"""

import types

import torch
from torch.distributed.fsdp import FSDPModule


def stand_in() -> types.SimpleNamespace:
    memory = types.SimpleNamespace(total_memory=2**34)
    nothing = lambda *ignored: None  # noqa: E731
    return types.SimpleNamespace(
        set_device=nothing, synchronize=nothing, empty_cache=nothing, reset_peak_memory_stats=nothing,
        current_device=lambda: 0, get_device_name=lambda *ignored: "cpu",
        get_device_properties=lambda *ignored: memory, memory_stats=lambda *ignored: {})


def _sum_by_hand() -> None:
    """gloo does not scale while it reduces, so FSDP divides by itself."""
    divide = FSDPModule.set_gradient_divide_factor

    def divide_and_sum(self: FSDPModule, factor: float) -> None:
        divide(self, factor)
        self.set_force_sum_reduction_for_comms(True)

    FSDPModule.set_gradient_divide_factor = divide_and_sum


def main() -> None:
    torch._utils._get_available_device_type = lambda: "cpu"
    torch._utils._get_device_module = lambda kind: stand_in()
    _sum_by_hand()
    import torchtitan.train

    torchtitan.train.main(torchtitan.train.Trainer)


if __name__ == "__main__":
    main()
