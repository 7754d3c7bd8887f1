"""torch.ops.kha.head_loss: opcheck, torch.compile, gradients, exactness, memory, messages."""

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
ROWS, VOCABULARY, WIDTH = 70, 19, 12  # more rows than one chunk


def make_arguments(dtype=torch.float32, device="cpu", requires_grad=True, rows=ROWS):
    """hidden, weight and targets, every third of them not counted."""
    generator = torch.Generator().manual_seed(3)

    def tensor(*shape):
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        return values.to(device, dtype).requires_grad_(requires_grad)

    targets = torch.arange(rows) * 7 % VOCABULARY
    targets[1::3] = -100
    return [tensor(rows, WIDTH), tensor(VOCABULARY, WIDTH), targets.to(device)]


def compose(hidden, weight, targets):
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    return F.cross_entropy(F.linear(hidden, weight).to(wide), targets, reduction="none")


def scales_of(hidden):
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    return torch.linspace(-1, 1, hidden.shape[0], dtype=wide, device=hidden.device)


def test_opcheck(ops):
    torch.library.opcheck(ops.head_loss.default, tuple(make_arguments()))
    hidden, weight, targets = make_arguments(requires_grad=False)
    strided = hidden.repeat(1, 2)[:, :WIDTH]
    torch.library.opcheck(ops.head_loss.default, (strided, weight.t().clone().t(), targets))


@pytest.mark.parametrize("with_weight", [True, False])
def test_opcheck_with_gradients(ops, with_weight):
    arguments = make_arguments(requires_grad=False)
    torch.library.opcheck(
        ops.head_loss_with_gradients.default, (scales_of(arguments[0]), *arguments, with_weight)
    )


def test_gradcheck(ops):
    hidden, weight, targets = make_arguments(torch.float64, rows=7)
    assert torch.autograd.gradcheck(lambda h, w: ops.head_loss(h, w, targets), (hidden, weight))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equals_composition(ops, dtype):
    arguments = make_arguments(dtype)
    found, expected = ops.head_loss(*arguments), compose(*arguments)
    assert found.dtype == expected.dtype
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert (found[1::3] == 0).all()


def test_gradients_of_a_known_scale_are_those_of_autograd(ops):
    hidden, weight, targets = make_arguments()
    scales = scales_of(hidden)
    losses = ops.head_loss(hidden, weight, targets)
    losses.backward(scales)
    found = ops.head_loss_with_gradients(scales, hidden, weight, targets)
    for one, other in zip((losses, hidden.grad, weight.grad), found):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_z_loss_adds_the_squared_log_sum(ops, dtype):
    hidden, weight, targets = make_arguments(dtype)
    scales = scales_of(hidden)
    log_sums = torch.logsumexp(F.linear(hidden, weight), 1)
    losses = compose(hidden, weight, targets) + 0.1 * log_sums**2 * (targets != -100)
    losses.backward(scales)
    found, dhidden, dweight = ops.head_loss_with_gradients(
        scales, hidden.detach(), weight.detach(), targets, True, 0.1)
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {}
    torch.testing.assert_close(dhidden, hidden.grad, **tolerance)
    torch.testing.assert_close(dweight, weight.grad, **tolerance)
    assert torch.equal(found, ops.head_loss(hidden, weight, targets))


@pytest.mark.parametrize("frozen", [0, 1])
def test_gradients_only_where_needed(ops, frozen):
    arguments = make_arguments()
    arguments[frozen].requires_grad_(False)
    ops.head_loss(*arguments).sum().backward()
    assert arguments[frozen].grad is None and arguments[1 - frozen].grad is not None


def test_second_derivative_is_a_clear_error(ops):
    hidden, weight, targets = make_arguments()
    losses = ops.head_loss(hidden, weight, targets)
    (dhidden,) = torch.autograd.grad(losses.square().sum(), hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="head_loss_with_gradients is not implemented"):
        dhidden.sum().backward()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_equals_eager(ops, dynamic):
    torch._dynamo.reset()

    def run(hidden, weight, targets):
        return ops.head_loss(hidden.sin(), weight, targets).square()

    compiled = torch.compile(run, fullgraph=True, dynamic=dynamic)
    for rows in [ROWS, ROWS + 5] if dynamic else [ROWS]:
        results = []
        for function in (run, compiled):
            arguments = make_arguments(torch.float64, rows=rows)
            losses = function(*arguments)
            losses.sum().backward()
            results.append([losses, *(argument.grad for argument in arguments[:2])])
        for eager, traced in zip(*results):
            torch.testing.assert_close(traced, eager, rtol=1e-9, atol=1e-9)


def test_saves_its_inputs_and_nothing_else(ops):
    arguments = make_arguments()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        ops.head_loss(*arguments)
    assert {t.data_ptr() for t in saved} == {t.data_ptr() for t in arguments}


def test_inputs_stay(ops):
    arguments = make_arguments(requires_grad=False)
    before = [argument.clone() for argument in arguments]
    results = ops.head_loss_with_gradients(scales_of(arguments[0]), *arguments)
    assert all(result.is_contiguous() for result in results)
    for argument, copy in zip(arguments, before):
        assert torch.equal(argument, copy)


def test_autocast_casts_mixed_dtypes(ops):
    hidden, weight, targets = make_arguments()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = ops.head_loss(hidden.detach().bfloat16(), weight, targets)
    assert torch.equal(losses, ops.head_loss(hidden.bfloat16(), weight.bfloat16(), targets))
    losses.sum().backward()
    assert weight.grad.dtype == torch.float32


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cuda_equals_cpu(ops, dtype):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: torch.cuda.is_available() is False")
    results = []
    for device, kind in [("cpu", torch.float64), ("cuda", dtype)]:
        arguments = make_arguments(dtype, requires_grad=False)
        moved = [a.to(device, kind if a.is_floating_point() else a.dtype) for a in arguments]
        results.append(ops.head_loss_with_gradients(scales_of(moved[0]), *moved))
    for reference, found in zip(*results):
        error = (found.cpu().double() - reference).abs().max()
        assert error <= 100 * torch.finfo(dtype).eps * reference.abs().max()


LONG = torch.int64
MESSAGES = {
    "hidden": ([(2, 5, 12), (19, 12), ((5,), LONG)],
        ["hidden is [2, 5, 12]; expected [rows, width]", "hidden.flatten(0, -2)"]),
    "width": ([(7, 12), (19, 11), ((7,), LONG)],
        ["weight is [19, 11]; expected [vocabulary, width] = [..., 12]", "hidden [7, 12]"]),
    "empty head": ([(7, 12), (0, 12), ((7,), LONG)], ["weight is [0, 12]"]),
    "target rows": ([(7, 12), (19, 12), ((6,), LONG)],
        ["targets is [6]; expected [rows] = [7]", "targets.flatten()"]),
    "target dtype": ([(7, 12), (19, 12), ((7,), torch.int32)],
        ["targets is Int; expected int64", "targets.to(torch.int64)"]),
    "dtype": ([(7, 12), ((19, 12), torch.float64), ((7,), LONG)],
        ["weight is float64, hidden is float32; expected one dtype", "weight.to(hidden.dtype)"]),
}


@pytest.mark.parametrize("case", MESSAGES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_messages(ops, case, device):
    shapes, parts = MESSAGES[case]
    pairs = [s if isinstance(s[0], tuple) else (s, torch.float32) for s in shapes]
    arguments = [torch.zeros(shape, dtype=dtype, device=device) for shape, dtype in pairs]
    calls = [lambda: ops.head_loss(*arguments)]
    if case != "hidden":
        calls.append(lambda: ops.head_loss_with_gradients(scales_of(arguments[0]), *arguments))
    for call in calls:
        with pytest.raises(ValueError) as error:
            call()
        for part in ["kha::head_loss", *parts]:
            assert part in str(error.value)


def test_scale_messages(ops):
    hidden, weight, targets = make_arguments(requires_grad=False)
    for scales, parts in [
        (torch.ones(1), ["scales is [1]; expected [rows] = [70]", "scales.expand"]),
        (torch.ones(ROWS).double(), ["scales is float64; expected float32, the dtype of the losses"]),
    ]:
        with pytest.raises(ValueError) as error:
            ops.head_loss_with_gradients(scales, hidden, weight, targets)
        for part in parts:
            assert part in str(error.value)


def test_a_target_that_is_no_id_is_named(ops):
    hidden, weight, targets = make_arguments(requires_grad=False)
    targets[11] = VOCABULARY
    expected = r"targets holds 19 at row 11; expected an id from 0 to 18.*tokenizer"
    with pytest.raises(ValueError, match=expected):
        ops.head_loss(hidden, weight, targets)
