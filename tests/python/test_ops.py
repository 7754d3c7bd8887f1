"""torch.ops.kha: opcheck, torch.compile, gradients, exactness, memory, messages, devices."""

import pytest
import torch
import torch.nn.functional as F

HEADS, DIM, WIDTH = 3, 8, 12
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
OPS = ["knock_linear", "knock_mlp", "knock_gate", "knocked_linear", "knocked_linear_no_bias"]


def operator(ops, name):
    return getattr(ops, name.removesuffix("_no_bias"))


def make_arguments(name, dtype=torch.float32, device="cpu", requires_grad=True, leading=(2, 5)):
    """Random arguments, x first; the order is the schema's."""
    generator = torch.Generator().manual_seed(OPS.index(name))

    def tensor(*shape):
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        return values.to(device, dtype).requires_grad_(requires_grad)

    x = tensor(*leading, HEADS, DIM)
    if name == "knock_mlp":
        return [x, tensor(DIM, DIM), tensor(DIM, DIM), tensor(DIM, DIM)]
    if name in ("knock_linear", "knock_gate"):
        return [x, tensor(DIM, DIM)]
    bias = None if name.endswith("no_bias") else tensor(HEADS * DIM)
    return [tensor(*leading, WIDTH), tensor(HEADS * DIM, WIDTH), bias, tensor(DIM, DIM)]


def compose(name, arguments):
    """The same in torch's own operators."""
    x, *rest = arguments
    if name == "knock_linear":
        return F.linear(x, rest[0])
    if name == "knock_gate":
        return x * (2 * torch.sigmoid(F.linear(x, rest[0])))
    if name == "knock_mlp":
        up, gate, down = rest
        return F.linear(F.linear(x, up) * (2 * torch.sigmoid(F.linear(x, gate))), down)
    weight, bias, knock = rest
    projected = F.linear(x, weight, bias)
    return F.linear(projected.unflatten(-1, (-1, knock.shape[0])), knock).flatten(-2)


def present(arguments):
    return [argument for argument in arguments if argument is not None]


@pytest.mark.parametrize("name", OPS)
def test_opcheck_forward(ops, name):
    arguments = make_arguments(name)
    torch.library.opcheck(operator(ops, name).default, tuple(arguments))


@pytest.mark.parametrize("name", OPS)
def test_opcheck_backward(ops, name):
    arguments = make_arguments(name, requires_grad=False)
    grad = torch.randn_like(operator(ops, name)(*arguments))
    backward = getattr(ops, name.removesuffix("_no_bias") + "_backward")
    torch.library.opcheck(backward.default, (grad, *arguments))


@pytest.mark.parametrize("name", OPS)
def test_opcheck_strided(ops, name):
    arguments = make_arguments(name, requires_grad=False)
    arguments[0] = torch.stack([arguments[0]] * 2, 1)[:, 1].transpose(0, 1)
    torch.library.opcheck(operator(ops, name).default, tuple(arguments))


@pytest.mark.parametrize("name", OPS)
def test_gradcheck(ops, name):
    arguments = make_arguments(name, torch.float64, leading=(3,))
    assert torch.autograd.gradcheck(operator(ops, name), tuple(arguments))


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("frozen", ["x", "weights"])
def test_gradients_only_where_needed(ops, name, frozen):
    arguments = make_arguments(name)
    for index, argument in enumerate(arguments):
        if argument is not None and (index == 0) == (frozen == "x"):
            argument.requires_grad_(False)
    operator(ops, name)(*arguments).sum().backward()
    for argument in present(arguments):
        assert (argument.grad is not None) == argument.requires_grad


@pytest.mark.parametrize("name", OPS)
def test_second_derivative_is_a_clear_error(ops, name):
    arguments = make_arguments(name)
    y = operator(ops, name)(*arguments)
    (dx,) = torch.autograd.grad(y.square().sum(), arguments[0], create_graph=True)
    expected = name.removesuffix("_no_bias") + "_backward is not implemented"
    with pytest.raises(RuntimeError, match=expected):
        dx.sum().backward()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_equals_eager(ops, dynamic):
    """All operators in one graph, so that one compilation serves them all."""
    torch._dynamo.reset()

    def run(x, projection, bias, knock, up, gate, down):
        q = ops.knocked_linear(x, projection, bias, knock).unflatten(-1, (HEADS, DIM))
        return ops.knock_gate(ops.knock_mlp(ops.knock_linear(q, knock), up, gate, down), gate).sin()

    compiled = torch.compile(run, fullgraph=True, dynamic=dynamic)
    for leading in [(2, 5), (3, 7)] if dynamic else [(2, 5)]:
        results = []
        for function in (run, compiled):
            projection = make_arguments("knocked_linear", torch.float64, leading=leading)
            arguments = [*projection, *make_arguments("knock_mlp", torch.float64)[1:]]
            y = function(*arguments)
            y.square().sum().backward()
            results.append([y, *(argument.grad for argument in arguments)])
        for eager, traced in zip(*results):
            torch.testing.assert_close(traced, eager, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_identity_start_is_exact(ops, dtype):
    x = torch.randn(4, 17, HEADS, 64).to(dtype)
    x[0, 0] = torch.finfo(dtype).smallest_normal / 4  # subnormal
    x[0, 1] = torch.finfo(dtype).max
    eye, zero = torch.eye(64, dtype=dtype), torch.zeros(64, 64, dtype=dtype)
    assert torch.equal(ops.knock_linear(x, eye), x)
    assert torch.equal(ops.knock_gate(x, zero), x)
    assert torch.equal(ops.knock_mlp(x, eye, zero, eye), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("with_bias", [True, False])
def test_identity_map_gives_the_plain_projection(ops, dtype, with_bias):
    x, weight = torch.randn(2, 17, 96).to(dtype), torch.randn(128, 96).to(dtype)
    bias = torch.randn(128).to(dtype) if with_bias else None
    knocked = ops.knocked_linear(x, weight, bias, torch.eye(32, dtype=dtype))
    assert torch.equal(knocked, F.linear(x, weight, bias))


@pytest.mark.parametrize("name", OPS)
def test_saves_its_inputs_and_nothing_else(ops, name):
    arguments = make_arguments(name)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        operator(ops, name)(*arguments)
    assert sum(t.nbytes for t in saved) == sum(t.nbytes for t in present(arguments))
    assert {t.data_ptr() for t in saved} == {t.data_ptr() for t in present(arguments)}


@pytest.mark.parametrize("name", OPS)
def test_results_are_fresh_and_inputs_stay(ops, name):
    arguments = make_arguments(name, requires_grad=False)
    before = [argument.clone() for argument in present(arguments)]
    y = operator(ops, name)(*arguments)
    backward = getattr(ops, name.removesuffix("_no_bias") + "_backward")
    results = [y, *backward(torch.ones_like(y), *arguments)]
    assert all(result.is_contiguous() for result in results)
    pointers = {argument.untyped_storage().data_ptr() for argument in present(arguments)}
    for result in results:
        assert result.numel() == 0 or result.untyped_storage().data_ptr() not in pointers
    for argument, copy in zip(present(arguments), before):
        assert torch.equal(argument, copy)


@pytest.mark.parametrize("name", OPS)
def test_autocast_casts_mixed_dtypes(ops, name):
    arguments = make_arguments(name)
    mixed = [arguments[0].detach().bfloat16(), *arguments[1:]]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = operator(ops, name)(*mixed)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    with torch.no_grad():
        same = operator(ops, name)(*[a if a is None else a.bfloat16() for a in arguments])
    assert torch.equal(y, same)
    for argument in present(arguments[1:]):
        assert argument.grad.dtype == torch.float32


@pytest.mark.parametrize("name", OPS)
def test_meta_tensors_give_shapes(ops, name):
    arguments = make_arguments(name, torch.bfloat16, "meta", requires_grad=False)
    y = operator(ops, name)(*arguments)
    width = (HEADS, DIM) if "knock_" in name else (HEADS * DIM,)
    assert (y.shape, y.dtype, y.device.type) == ((2, 5, *width), torch.bfloat16, "meta")
    assert y.is_contiguous()
    backward = getattr(ops, name.removesuffix("_no_bias") + "_backward")
    gradients = backward(torch.empty_like(y), *arguments)
    for gradient, argument in zip(gradients, arguments):
        assert gradient.shape == ((0,) if argument is None else argument.shape)
        assert gradient.is_contiguous()


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cuda_equals_cpu(ops, name, dtype):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: torch.cuda.is_available() is False")
    results = []
    for device, kind in [("cpu", torch.float64), ("cuda", dtype)]:
        arguments = [
            a if a is None else a.detach().to(device, kind).requires_grad_()
            for a in make_arguments(name, dtype)
        ]
        y = operator(ops, name)(*arguments)
        y.sum().backward()
        results.append([y, *(argument.grad for argument in present(arguments))])
    tolerance = 100 * torch.finfo(dtype).eps
    for reference, found in zip(*results):
        scale = reference.abs().max()
        assert (found.cpu().double() - reference).abs().max() <= tolerance * scale


X, MAP = (2, 5, 4, 64), (64, 64)
MESSAGES = {
    "map shape": ("knock_linear", [X, (64, 32)],
        ["kha::knock_linear: weight is [64, 32]", "[head_dim, head_dim] = [64, 64]",
         "last dimension of x [2, 5, 4, 64]", "torch.nn.Linear"]),
    "which map": ("knock_mlp", [X, MAP, MAP, (32, 32)], ["kha::knock_mlp: down is [32, 32]"]),
    "map dimensions": ("knock_gate", [X, (1, 64, 64)], ["gate is [1, 64, 64]"]),
    "one dimension": ("knock_linear", [(64,), MAP],
        ["x is [64]", "[..., heads, head_dim]", "unsqueeze(-2)"]),
    "no head_dim": ("knock_linear", [(2, 0), (0, 0)], ["x is [2, 0]", "head_dim at least 1"]),
    "width": ("knocked_linear", [(7, 48), (128, 40), None, MAP],
        ["kha::knocked_linear: weight is [128, 40]", "[..., 48]", "x [7, 48]"]),
    "heads": ("knocked_linear", [(7, 48), (100, 48), None, MAP],
        ["weight is [100, 48] with 100 rows", "multiple of head_dim = 64"]),
    "square map": ("knocked_linear", [(7, 48), (128, 48), None, (64, 32)],
        ["map is [64, 32]", "square [head_dim, head_dim]"]),
    "bias": ("knocked_linear", [(7, 48), (128, 48), (64,), MAP],
        ["bias is [64]", "[heads * head_dim] = [128]", "rows of weight [128, 48]"]),
    "grad": ("knock_linear_backward", [(2, 5, 4, 32), X, MAP],
        ["kha::knock_linear_backward: grad is [2, 5, 4, 32]", "expected [2, 5, 4, 64]"]),
    "projection grad": ("knocked_linear_backward", [(7, 48), (7, 48), (128, 48), None, MAP],
        ["kha::knocked_linear_backward: grad is [7, 48]", "expected [7, 128]"]),
}


@pytest.mark.parametrize("case", MESSAGES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_messages(ops, case, device):
    name, shapes, parts = MESSAGES[case]
    arguments = [None if s is None else torch.zeros(s, device=device) for s in shapes]
    with pytest.raises(ValueError) as error:
        getattr(ops, name)(*arguments)
    for part in parts:
        assert part in str(error.value)


def refusal(ops, x, weight):
    with pytest.raises(ValueError) as error:
        ops.knock_linear(x, weight)
    return str(error.value)


def test_dtype_messages(ops):
    x, weight = torch.zeros(5, 4, 8), torch.zeros(8, 8)
    mixed = refusal(ops, x.bfloat16(), weight)
    assert "weight is float32, x is bfloat16; expected one dtype" in mixed
    assert "weight.to(x.dtype)" in mixed and "torch.autocast" in mixed
    integers = refusal(ops, x.int(), weight.int())
    assert "x is Int; expected float32, float64, bfloat16 or float16" in integers


def test_stride_message(ops):
    message = refusal(ops, torch.zeros(5, 8, 4).transpose(1, 2), torch.zeros(8, 8))
    assert "x [5, 4, 8] has stride 4 in its last dimension; expected 1" in message
    assert "x.contiguous()" in message


def test_device_message(ops):
    message = refusal(ops, torch.zeros(5, 4, 8), torch.zeros(8, 8, device="meta"))
    assert "weight is on meta, x is on cpu; expected one device" in message


@pytest.mark.parametrize("name", OPS)
def test_equals_composition(ops, name):
    arguments = make_arguments(name, torch.float64)
    found = operator(ops, name)(*arguments)
    torch.testing.assert_close(found, compose(name, arguments), rtol=1e-12, atol=1e-12)
