"""torch.ops.kha.rms_norm, norm_rope, swiglu: opcheck, torch.compile, gradients, memory, messages."""

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
OPS = ["rms_norm", "norm_rope", "swiglu"]
EPS = 1e-3
SHAPE = (2, 5, 3, 8)


def make_arguments(name, dtype=torch.float32, device="cpu", requires_grad=True, shape=SHAPE):
    """Random arguments in the schema's order; the first two are differentiable."""
    generator = torch.Generator().manual_seed(OPS.index(name))

    def tensor(*size, grad=requires_grad):
        values = torch.randn(size, generator=generator, dtype=torch.float64)
        return values.to(device, dtype).requires_grad_(grad)

    if name == "swiglu":
        return [tensor(*shape), tensor(*shape)]
    if name == "rms_norm":
        return [tensor(*shape), tensor(shape[-1]), EPS]
    table = [tensor(shape[1], shape[3], grad=False) for _ in range(2)]
    return [tensor(*shape), tensor(shape[-1]), EPS, *table]


def compose(name, arguments):
    """The same in torch's own operators."""
    if name == "swiglu":
        return F.silu(arguments[0]) * arguments[1]
    x, weight, eps, *table = arguments
    wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    n = weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
    if not table:
        return n
    cos, sin = (each.unsqueeze(1) for each in table)
    low, high = n.chunk(2, -1)
    return n * cos + torch.cat((-high, low), -1) * sin


def tensors(arguments):
    return [argument for argument in arguments if isinstance(argument, torch.Tensor)]


@pytest.mark.parametrize("name", OPS)
def test_opcheck_forward(ops, name):
    torch.library.opcheck(getattr(ops, name).default, tuple(make_arguments(name)))


@pytest.mark.parametrize("name", OPS)
def test_opcheck_backward(ops, name):
    arguments = make_arguments(name, requires_grad=False)
    grad = torch.randn(SHAPE)
    torch.library.opcheck(getattr(ops, name + "_backward").default, (grad, *arguments))


@pytest.mark.parametrize("name", OPS)
def test_opcheck_strided(ops, name):
    arguments = make_arguments(name, requires_grad=False)
    arguments[0] = torch.stack([arguments[0]] * 2, 2)[:, :, 1]
    assert not arguments[0].is_contiguous()
    torch.library.opcheck(getattr(ops, name).default, tuple(arguments))


@pytest.mark.parametrize("name", OPS)
def test_gradcheck(ops, name):
    arguments = make_arguments(name, torch.float64, shape=(1, 2, 2, 6))
    assert torch.autograd.gradcheck(getattr(ops, name), tuple(arguments))


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equals_composition(ops, name, dtype):
    """Bit for bit where no kernel of kha's runs: the numbers of narrow dtypes are those of torch."""
    arguments = make_arguments(name, dtype)
    found, expected = getattr(ops, name)(*arguments), compose(name, arguments)
    if dtype == torch.float32:
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert torch.equal(found, expected)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("frozen", [0, 1])
def test_gradients_only_where_needed(ops, name, frozen):
    arguments = make_arguments(name)
    arguments[frozen].requires_grad_(False)
    getattr(ops, name)(*arguments).sum().backward()
    assert arguments[frozen].grad is None and arguments[1 - frozen].grad is not None


@pytest.mark.parametrize("name", OPS)
def test_second_derivative_is_a_clear_error(ops, name):
    arguments = make_arguments(name)
    y = getattr(ops, name)(*arguments)
    (dx,) = torch.autograd.grad(y.square().sum(), arguments[0], create_graph=True)
    with pytest.raises(RuntimeError, match=name + "_backward is not implemented"):
        dx.sum().backward()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_equals_eager(ops, dynamic):
    """All operators in one graph, so that one compilation serves them all."""
    torch._dynamo.reset()

    def run(x, weight, cos, sin, up):
        n = ops.norm_rope(ops.rms_norm(x, weight, EPS), weight, EPS, cos, sin)
        return ops.swiglu(n.sin(), up).cos()

    compiled = torch.compile(run, fullgraph=True, dynamic=dynamic)
    for shape in [SHAPE, (3, 7, 2, 8)] if dynamic else [SHAPE]:
        results = []
        for function in (run, compiled):
            x, weight, _, cos, sin = make_arguments("norm_rope", torch.float64, shape=shape)
            up = make_arguments("swiglu", torch.float64, shape=shape)[1]
            y = function(x, weight, cos, sin, up)
            y.square().sum().backward()
            results.append([y, x.grad, weight.grad, up.grad])
        for eager, traced in zip(*results):
            torch.testing.assert_close(traced, eager, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", OPS)
def test_saves_its_inputs_and_nothing_else(ops, name):
    arguments = make_arguments(name)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        getattr(ops, name)(*arguments)
    assert {t.data_ptr() for t in saved} == {t.data_ptr() for t in tensors(arguments)}
    assert sum(t.nbytes for t in saved) == sum(t.nbytes for t in tensors(arguments))


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_results_are_fresh_and_contiguous_and_inputs_stay(ops, name, dtype):
    arguments = make_arguments(name, dtype, requires_grad=False)
    arguments[0] = arguments[0].transpose(0, 2).contiguous().transpose(0, 2)
    before = [argument.clone() for argument in tensors(arguments)]
    grad = torch.ones(SHAPE, dtype=dtype)
    results = [getattr(ops, name)(*arguments), *getattr(ops, name + "_backward")(grad, *arguments)]
    pointers = {argument.untyped_storage().data_ptr() for argument in tensors(arguments)}
    for result in results:
        assert result.is_contiguous()
        assert result.untyped_storage().data_ptr() not in pointers
    for argument, copy in zip(tensors(arguments), before):
        assert torch.equal(argument, copy)


@pytest.mark.parametrize("name", OPS)
def test_autocast_casts_mixed_dtypes(ops, name):
    arguments = make_arguments(name)
    mixed = [arguments[0].detach().bfloat16(), *arguments[1:]]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = getattr(ops, name)(*mixed)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    narrow = [a.bfloat16() if isinstance(a, torch.Tensor) else a for a in arguments]
    assert torch.equal(y, getattr(ops, name)(*narrow))
    assert arguments[1].grad.dtype == torch.float32


@pytest.mark.parametrize("name", OPS)
def test_meta_tensors_give_shapes(ops, name):
    arguments = make_arguments(name, torch.bfloat16, "meta", requires_grad=False)
    y = getattr(ops, name)(*arguments)
    assert (y.shape, y.dtype, y.device.type) == (SHAPE, torch.bfloat16, "meta")
    gradients = getattr(ops, name + "_backward")(torch.empty_like(y), *arguments)
    for gradient, argument in zip(gradients, arguments):
        assert gradient.shape == argument.shape and gradient.is_contiguous()


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cuda_equals_cpu(ops, name, dtype):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: torch.cuda.is_available() is False")
    results = []
    for device, kind in [("cpu", torch.float64), ("cuda", dtype)]:
        arguments = [
            a.detach().to(device, kind) if isinstance(a, torch.Tensor) else a
            for a in make_arguments(name, dtype)
        ]
        for argument in arguments[:2]:
            argument.requires_grad_()
        y = getattr(ops, name)(*arguments)
        y.sum().backward()
        results.append([y, *(argument.grad for argument in arguments[:2])])
    for reference, found in zip(*results):
        error = (found.cpu().double() - reference).abs().max()
        assert error <= 100 * torch.finfo(dtype).eps * reference.abs().max()


X, TABLE = (2, 5, 3, 8), (5, 8)
MESSAGES = {
    "norm weight": ("rms_norm", [X, (3,), EPS],
        ["kha::rms_norm: weight is [3]", "expected [width] = [8]", "x [2, 5, 3, 8]"]),
    "norm width": ("rms_norm", [(2, 0), (0,), EPS], ["x is [2, 0]", "width at least 1"]),
    "eps": ("rms_norm", [X, (8,), 0.0], ["eps is 0; expected more than 0"]),
    "norm grad": ("rms_norm_backward", [(2, 5, 3, 4), X, (8,), EPS],
        ["kha::rms_norm_backward: grad is [2, 5, 3, 4]; expected [2, 5, 3, 8]"]),
    "odd head_dim": ("norm_rope", [(2, 5, 3, 7), (7,), EPS, (5, 7), (5, 7)],
        ["kha::norm_rope: x is [2, 5, 3, 7]", "even head_dim"]),
    "no heads": ("norm_rope", [(2, 5, 8), (8,), EPS, TABLE, TABLE],
        ["x is [2, 5, 8]; expected [batch, time, heads, head_dim]", "x.unflatten"]),
    "cos": ("norm_rope", [X, (8,), EPS, (4, 8), TABLE],
        ["cos is [4, 8]; expected [time, head_dim] = [5, 8]"]),
    "sin": ("norm_rope", [X, (8,), EPS, TABLE, (5, 4)],
        ["sin is [5, 4]; expected [time, head_dim] = [5, 8]"]),
    "up": ("swiglu", [X, (2, 5, 3, 4)],
        ["kha::swiglu: up is [2, 5, 3, 4]; expected [2, 5, 3, 8], the shape of gate"]),
    "swiglu grad": ("swiglu_backward", [(8,), X, X],
        ["kha::swiglu_backward: grad is [8]; expected [2, 5, 3, 8]"]),
}


@pytest.mark.parametrize("case", MESSAGES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_messages(ops, case, device):
    name, values, parts = MESSAGES[case]
    arguments = [
        torch.zeros(value, device=device) if isinstance(value, tuple) else value for value in values
    ]
    with pytest.raises(ValueError) as error:
        getattr(ops, name)(*arguments)
    for part in parts:
        assert part in str(error.value)


def test_dtype_and_constant_messages(ops):
    x, weight = torch.zeros(3, 8), torch.zeros(8)
    with pytest.raises(ValueError, match="weight is float32, x is bfloat16; expected one dtype"):
        ops.rms_norm(x.bfloat16(), weight, EPS)
    arguments = make_arguments("norm_rope")
    arguments[3].requires_grad_()
    with pytest.raises(ValueError, match="cos requires a gradient.*cos.detach"):
        ops.norm_rope(*arguments)
