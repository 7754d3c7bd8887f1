"""Every shape that is measured, by name. A change of a shape changes what figures mean."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MapCase:
    """One map on x [tokens, heads, dim]; a strided x is a slice of a projection of 2 x heads."""

    kind: str  # knock_mlp, knock_linear, knock_gate
    tokens: int
    heads: int
    dim: int
    strided: bool = False
    decode: bool = False  # a call of decode size: forward only, without autograd
    compiled: bool = False  # torch.compile is a contender: it takes seconds for each
    one_thread: bool = False  # also measured on one thread

    @property
    def rows(self):
        return self.tokens * self.heads

    @property
    def name(self):
        how = " strided" if self.strided else " decode" if self.decode else ""
        return f"{self.kind.removeprefix('knock_')} {self.rows} x {self.dim}{how}"

    @property
    def passes(self):
        return ("forward",) if self.decode else ("forward", "both")

    def useful_flops(self, run):
        """2 a multiply-add, without recomputation: three products a matrix in both passes."""
        matrices = 3 if self.kind == "knock_mlp" else 1
        return 2 * matrices * self.dim**2 * self.rows * (3 if run == "both" else 1)

    def moved_bytes(self):
        """The least that the forward pass reads and writes of float32."""
        return 2 * 4 * self.rows * self.dim


@dataclass(frozen=True)
class StepCase:
    """A Qwen3-shaped model and the batch of one training step."""

    name: str
    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    dim: int
    vocab: int
    tied: bool
    batch: int
    context: int
    setting: str = "baseline"  # of knock.setting
    attention: str = "gqa"
    parts: tuple = ()  # ((key of the model's configuration, value), ...) of this attention

    @property
    def tokens(self):
        return self.batch * self.context

    def training_flops(self):
        """Of one step without maps: three times the forward products, causal attention exactly."""
        attended = 2 * 2 * self.heads * self.dim * (self.context + 1) / 2
        projections = 2 * self.width * self.dim * (2 * self.heads + 2 * self.kv_heads)
        layer = projections + 3 * 2 * self.width * self.ffn + attended
        return 3 * self.tokens * (self.layers * layer + 2 * self.width * self.vocab)


@dataclass(frozen=True)
class HeadCase:
    """Head and loss on hidden states [rows, width]."""

    rows: int
    width: int
    vocab: int

    @property
    def name(self):
        return f"head {self.rows} x {self.width} to {self.vocab} ids"

    def needed_bytes(self):
        """Weights, their gradient, hidden states and theirs, float32."""
        return 2 * 4 * (self.vocab + self.rows) * self.width


DIM = 128  # the head width of the targets
TARGET_ROWS = (4096, 16384, 32768, 65536)


def map_cases():
    mlp = [MapCase("knock_mlp", rows // 8, 8, DIM, compiled=True, one_thread=True)
           for rows in TARGET_ROWS]
    mlp.append(MapCase("knock_mlp", 4096, 8, DIM, strided=True, compiled=True, one_thread=True))
    widths = [MapCase("knock_mlp", 2048, 8, dim) for dim in (16, 64, 96, 256)]
    others = [MapCase(kind, 4096, 8, dim, compiled=dim == DIM)
              for kind in ("knock_linear", "knock_gate") for dim in (64, DIM)]
    decode = [MapCase(kind, 1, rows, DIM, decode=True)
              for kind in ("knock_mlp", "knock_linear", "knock_gate") for rows in (1, 4, 16)]
    return mlp + widths + others + decode


def quick_map_cases():
    return [MapCase("knock_mlp", 32, 8, 32, one_thread=True),
            MapCase("knock_mlp", 32, 4, 32, strided=True),
            MapCase("knock_linear", 32, 8, 16),
            MapCase("knock_gate", 32, 8, 16),
            MapCase("knock_mlp", 1, 4, 32, decode=True)]


# The two models of the step's targets.
MAPS_STEP = StepCase("4 x d 1024", layers=4, width=1024, ffn=3072, heads=8, kv_heads=4, dim=128,
                     vocab=8192, tied=False, batch=4, context=1024)
PEER_STEP = StepCase("8 x d 512", layers=8, width=512, ffn=1536, heads=8, kv_heads=4, dim=64,
                     vocab=8192, tied=True, batch=4, context=1024)
# Small relatives of the same kind, for --quick.
QUICK_MAPS_STEP = StepCase("quick 2 x d 64", layers=2, width=64, ffn=96, heads=4, kv_heads=2,
                           dim=16, vocab=512, tied=False, batch=2, context=32)
QUICK_PEER_STEP = replace(QUICK_MAPS_STEP, name="quick tied 2 x d 64", tied=True)


def scaling_in_tokens():
    """The step against transformers as the batch grows."""
    small = replace(PEER_STEP, layers=2)
    return [replace(small, name=f"2 x d 512, {batch} x {context} tokens", batch=batch,
                    context=context)
            for batch, context in ((1, 128), (1, 512), (2, 1024), (4, 1024))]


def scaling_in_heads():
    """The MLP map's share of a step as heads of 64 are added."""
    small = replace(PEER_STEP, layers=2, batch=2)
    return [replace(small, name=f"2 x d 512, {heads} heads", heads=heads, kv_heads=heads // 2)
            for heads in (2, 4, 8, 16)]


def head_cases():
    return [HeadCase(4096, 512, vocab) for vocab in (8192, 32768)]


def quick_head_cases():
    return [HeadCase(512, 256, 8192)]


def map_variants(case):
    """The same step with each setting whose cost is a target, the baseline first."""
    return [replace(case, setting=setting) for setting in ("baseline", "kha-linear", "kha-mlp")]


def mlp_variants(case):
    return [replace(case, setting=setting) for setting in ("baseline", "kha-mlp")]


def of_system(case, attention, **parts):
    """The same step with another attention. Latent and collaborative ones have values for every head."""
    every = attention in ("mla", "gla", "collaborative")
    kv_heads = case.heads if every else case.kv_heads
    latent = parts.get("query_latent")
    extra = "" if latent is None else ", query latent" if latent else ", no query latent"
    return replace(case, name=f"{attention}{extra}, {case.name}", attention=attention,
                   kv_heads=kv_heads, parts=tuple(parts.items()))


def system_cases(case):
    """Every attention: the widths of a head's parts are those of the papers, in units of D."""
    d, half = case.dim, case.dim // 2
    latent = {"rope_head_dim": half, "kv_latent": 4 * d, "latent_heads": 1}
    return [of_system(case, "gqa"), of_system(case, "gta", rope_head_dim=half),
            of_system(case, "mla", **latent, query_latent=8 * d),
            of_system(case, "mla", **latent, query_latent=0),
            of_system(case, "gla", rope_head_dim=half, kv_latent=2 * d, latent_heads=2,
                      query_latent=8 * d),
            of_system(case, "talking"),
            of_system(case, "collaborative", shared_key_width=case.heads * d // 2)]


# The systems' step: as deep and wide as fits a minute, heads of the step's targets.
SYSTEM_STEP = replace(PEER_STEP, name="2 x d 512", layers=2, batch=2)


@dataclass(frozen=True)
class DecodeCase:
    """A decode step of one layer's latent attention behind `positions` cached ones."""

    positions: int
    width: int
    heads: int
    dim: int
    rotated: int
    latent: int
    query_latent: int
    batch: int = 1

    @property
    def name(self):
        return (f"{self.positions} positions, d {self.width}, {self.heads} heads of {self.dim}, latent "
                f"{self.latent} + {self.rotated}" + (f", {self.batch} texts" * (self.batch > 1)))


# The paper's MLA at its 0.8B model's width.
DECODE = DecodeCase(4096, 1536, 32, 128, 64, 512, 1024)
QUICK_DECODE = DecodeCase(128, 48, 4, 16, 8, 64, 32, batch=2)


@dataclass(frozen=True)
class FilesCase:
    """Sizes of files, and a Qwen3 model in bfloat16 for the surgery."""

    name: str
    small_bytes: int
    large_bytes: int
    read_bytes: int
    read_tensors: int
    saved_bytes: int
    saved_tensors: int
    shard_bytes: int
    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    dim: int
    vocab: int


FILES = FilesCase("8 x d 1024", 40_000_000, 4_000_000_000, 40_960_000, 10_000, 400 << 20, 100,
                  80_000_000, 8, 1024, 3072, 8, 4, 128, 32_768)
QUICK_FILES = FilesCase("2 x d 128", 1_000_000, 100_000_000, 4_096_000, 1000, 8 << 20, 10,
                        400_000, 2, 128, 384, 4, 2, 32, 1000)
