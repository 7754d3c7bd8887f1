"""No operator is registered that the tests of opcheck do not know."""

import test_layer_ops
import test_ops
import torch

# These take and give numbers and texts; opcheck is about tensors.
OF_THE_MACHINE = {"cpu_implementation", "set_cpu_implementation", "widest_instruction_set",
                  "measure_ceiling"}


def test_opcheck_knows_every_operator(ops):
    names = {name.split(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    registered = {name.removeprefix("kha::") for name in names if name.startswith("kha::")}
    maps = {name.removesuffix("_no_bias") for name in test_ops.OPS}
    checked = {name + suffix for name in maps | set(test_layer_ops.OPS) for suffix in ("", "_backward")}
    checked |= {"head_loss", "head_loss_with_gradients"}  # test_head_loss.py
    assert registered == checked | OF_THE_MACHINE
